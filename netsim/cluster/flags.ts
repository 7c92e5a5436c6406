/** Command line flags of Go programs, as an object reads them. */

export type Flags = Readonly<Record<string, string | number | boolean>>;

/** Turns `{"secure-port": 6443, "allow-privileged": true}` into `--secure-port=6443 --allow-privileged=true`. */
export function flagList(flags: Flags): readonly string[] {
  return Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
}
