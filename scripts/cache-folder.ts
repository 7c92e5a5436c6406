/** Where built programs are kept outside the tree: $XYLEM_CACHE, else $XDG_CACHE_HOME/xylem, else ~/.cache/xylem. */

import { homedir } from "node:os";
import { join } from "node:path";

export const cacheFolder = (): string => {
  const { XYLEM_CACHE: own, XDG_CACHE_HOME: xdg } = process.env;
  if (own !== undefined && own !== "") return own;
  return join(xdg !== undefined && xdg !== "" ? xdg : join(homedir(), ".cache"), "xylem");
};
