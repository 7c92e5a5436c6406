/** RFC 3339 timestamps as Kubernetes writes them, without a clock: text to milliseconds since 1970 and back. */

import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

const DAY_MS = 86_400_000;
const TIMESTAMP =
  /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):(\d{2}))$/;

/** Reads a timestamp; fractions are cut to milliseconds. */
export const parseTimestamp = (text: unknown): Parsed<number> => {
  const refuse = () => problem(`${quoted(text)} is not a timestamp such as 2026-01-01T00:00:00Z`);
  const match = typeof text === "string" ? TIMESTAMP.exec(text) : null;
  if (match === null) return refuse();
  const at = (group: number): number => Number(match[group] ?? "0");
  const [year, month, day] = [at(1), at(2), at(3)];
  const days = daysFromCivil({ year, month, day });
  if (month < 1 || month > 12 || civilFromDays(days).day !== day) return refuse();
  if (at(4) > 23 || at(5) > 59 || at(6) > 60 || at(9) > 23 || at(10) > 59) return refuse();
  const offsetMin = (match[8] === "-" ? -1 : 1) * (at(9) * 60 + at(10));
  const fractionMs = Math.floor(Number(`0.${match[7] ?? "0"}`) * 1000);
  const seconds = (at(4) * 60 + at(5) - offsetMin) * 60 + at(6);
  return parsed(days * DAY_MS + seconds * 1000 + fractionMs);
};

/** Prints whole seconds in UTC, the form of metav1.Time. */
export const formatTimestamp = (ms: number): string => {
  const days = Math.floor(ms / DAY_MS);
  const seconds = Math.floor((ms - days * DAY_MS) / 1000);
  const { year, month, day } = civilFromDays(days);
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}`;
  const [hour, minute] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${date}T${two(hour)}:${two(minute)}:${two(seconds % 60)}Z`;
};

/** Prints UTC with six digits of a second, the only form that metav1.MicroTime reads. */
export const formatMicroTimestamp = (ms: number): string => {
  const wholeMs = Math.floor(ms);
  const fractionMs = ((wholeMs % 1000) + 1000) % 1000;
  return formatTimestamp(ms).replace("Z", `.${String(fractionMs).padStart(3, "0")}000Z`);
};

interface CivilDate {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

/** Days since 1970-01-01; years start in March so that the leap day is last (Hinnant, chrono algorithms). */
const daysFromCivil = ({ year, month, day }: CivilDate): number => {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const leaps = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  return era * 146_097 + yearOfEra * 365 + leaps + dayOfYear - 719_468;
};

const civilFromDays = (days: number): CivilDate => {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
};
