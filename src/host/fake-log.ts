/** A log that keeps its lines, for tests that read what was said. */

import type { Log } from "#src/ports/log.ts";
import type { LogLevel } from "./log.ts";

export interface LogLine {
  readonly level: LogLevel;
  readonly fields: object;
  readonly message: string;
}

export class FakeLog implements Log {
  readonly lines: LogLine[] = [];

  debug(fields: object, message: string): void {
    this.lines.push({ level: "debug", fields, message });
  }

  info(fields: object, message: string): void {
    this.lines.push({ level: "info", fields, message });
  }

  warn(fields: object, message: string): void {
    this.lines.push({ level: "warn", fields, message });
  }

  error(fields: object, message: string): void {
    this.lines.push({ level: "error", fields, message });
  }

  /** Messages of one level, oldest first. */
  messages(level: LogLevel): readonly string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }
}
