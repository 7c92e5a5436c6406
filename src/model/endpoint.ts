/** An address and a UDP port, written `192.0.2.1:51820` or `[2001:db8::1]:51820`. */

import { familyOf, parseIp, type IpAddress } from "./ip.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

export interface Endpoint {
  readonly address: IpAddress;
  readonly port: number;
}

const PORT_MAX = 65535;

/** Accepts 1 to 65535. */
export const parsePort = (value: unknown): Parsed<number> =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= PORT_MAX
    ? parsed(value)
    : problem(`a port is a whole number from 1 to ${PORT_MAX}, found ${quoted(value)}`);

/** Reads `address:port`; IPv6 needs its brackets. */
export const parseEndpoint = (text: unknown): Parsed<Endpoint> => {
  if (typeof text !== "string") return problem(`an endpoint must be text, found ${quoted(text)}`);
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})$/.exec(text);
  if (match === null) {
    return problem(
      `${quoted(text)} is not an endpoint: write 192.0.2.1:51820 or [2001:db8::1]:51820`,
    );
  }
  const bracketed = match[1];
  const address = parseIp(bracketed ?? match[2]);
  if (!address.ok) return address;
  if ((bracketed === undefined) !== (familyOf(address.value) === 4)) {
    return problem(`${quoted(text)} is not an endpoint: brackets are for IPv6`);
  }
  const port = parsePort(Number(match[3]));
  return port.ok ? parsed({ address: address.value, port: port.value }) : port;
};

/** Prints what `parseEndpoint` reads. */
export const formatEndpoint = ({ address, port }: Endpoint): string =>
  familyOf(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;

export const isEndpointEqual = (a: Endpoint | null, b: Endpoint | null): boolean =>
  a === b || (a !== null && b !== null && a.address === b.address && a.port === b.port);
