/** Structured logging: fields first, then a sentence. Keys and tokens are never fields. */

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
