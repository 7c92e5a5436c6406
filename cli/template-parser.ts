/**
 * Parses the part of Go's text/template (pkg.go.dev/text/template) that our charts use: text, pipelines, variables, if,
 * with, range, define, comments and trimmed delimiters. What it does not know it refuses, by file and line.
 */

export type TemplateNode =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "print"; readonly pipeline: Pipeline }
  | { readonly kind: "assign"; readonly variable: string; readonly pipeline: Pipeline }
  | BranchNode
  | { readonly kind: "define"; readonly name: string; readonly body: readonly TemplateNode[] };

/** `if` keeps the dot, `with` and `range` move it. */
export interface BranchNode {
  readonly kind: "if" | "with" | "range";
  /** Of a range: `$key, $value :=`. */
  readonly variables: readonly string[];
  readonly pipeline: Pipeline;
  readonly body: readonly TemplateNode[];
  readonly otherwise: readonly TemplateNode[];
}

/** Each command's value is the last argument of the next. */
export type Pipeline = readonly Command[];
export type Command = readonly Operand[];

export type Operand =
  | { readonly kind: "literal"; readonly value: string | number | boolean }
  /** `.a.b` (variable null: the dot), `$x.a`, `$`. */
  | { readonly kind: "path"; readonly variable: string | null; readonly fields: readonly string[] }
  | { readonly kind: "function"; readonly name: string }
  | { readonly kind: "pipeline"; readonly pipeline: Pipeline };

interface Piece {
  readonly kind: "text" | "action";
  readonly text: string;
  readonly line: number;
}

/** Throws an Error that names the file and the line. */
export const parseTemplate = (file: string, source: string): readonly TemplateNode[] => {
  const pieces = split(source);
  const { nodes, stop } = parseBody(file, pieces);
  if (stop !== null) throw new Error(`${file}: {{ ${stop.text} }} ends nothing`);
  return nodes;
};

/** Cuts a source at its delimiters; `{{-` and `-}}` take the white space before and after them away. */
const split = (source: string): Piece[] => {
  const pieces: Piece[] = [];
  let at = 0;
  let isTrimmed = false;
  for (const match of source.matchAll(
    /\{\{(- )?((?:\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\])*"|`[^`]*`|[^{}"`])*?)( -)?\}\}/gu,
  )) {
    const raw = source.slice(at, match.index);
    const started = isTrimmed ? raw.trimStart() : raw;
    const text = match[1] === undefined ? started : started.trimEnd();
    const line = source.slice(0, match.index).split("\n").length;
    pieces.push({ kind: "text", text, line });
    pieces.push({ kind: "action", text: (match[2] ?? "").trim(), line });
    isTrimmed = match[3] !== undefined;
    at = match.index + match[0].length;
  }
  const rest = source.slice(at);
  pieces.push({ kind: "text", text: isTrimmed ? rest.trimStart() : rest, line: 0 });
  return pieces.filter(({ kind, text }) => kind === "action" || text !== "");
};

interface Body {
  readonly nodes: readonly TemplateNode[];
  /** The action that ended it: `end` or `else ...`; null: the file did. */
  readonly stop: Piece | null;
}

/** Takes pieces from the front until an `end` or `else`. */
const parseBody = (file: string, pieces: Piece[]): Body => {
  const nodes: TemplateNode[] = [];
  for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift()) {
    if (piece.kind === "text") {
      nodes.push({ kind: "text", text: piece.text });
      continue;
    }
    if (piece.text.startsWith("/*")) continue;
    if (/^(end|else)\b/u.test(piece.text)) return { nodes, stop: piece };
    nodes.push(parseAction(file, piece, pieces));
  }
  return { nodes, stop: null };
};

const parseAction = (file: string, piece: Piece, pieces: Piece[]): TemplateNode => {
  const [, word, rest = ""] = /^(if|with|range|define)\s+([\s\S]+)$/u.exec(piece.text) ?? [];
  if (word === "if" || word === "with" || word === "range") {
    return parseBranch({ file, piece, pieces, kind: word, head: rest });
  }
  if (word === "define") {
    const { nodes, stop } = parseBody(file, pieces);
    if (stop?.text !== "end") throw new Error(`${file}:${piece.line}: define has no end`);
    return { kind: "define", name: rest.trim().slice(1, -1), body: nodes };
  }
  const [, variable, value = ""] = /^(\$\w+)\s*:=\s*([\s\S]+)$/u.exec(piece.text) ?? [];
  const place = `${file}:${piece.line}`;
  return variable === undefined
    ? { kind: "print", pipeline: parsePipeline(place, piece.text) }
    : { kind: "assign", variable, pipeline: parsePipeline(place, value) };
};

const parseBranch = (options: {
  readonly file: string;
  readonly piece: Piece;
  readonly pieces: Piece[];
  readonly kind: BranchNode["kind"];
  readonly head: string;
}): BranchNode => {
  const { file, piece, pieces, kind, head } = options;
  const place = `${file}:${piece.line}`;
  const [, names = "", value] = /^(\$\w+(?:\s*,\s*\$\w+)?)\s*:=\s*([\s\S]+)$/u.exec(head) ?? [];
  const { nodes: body, stop } = parseBody(file, pieces);
  if (stop === null) throw new Error(`${place}: ${kind} has no end`);
  let otherwise: readonly TemplateNode[] = [];
  const [, elseIf] = /^else\s+if\s+([\s\S]+)$/u.exec(stop.text) ?? [];
  if (elseIf !== undefined) {
    otherwise = [parseBranch({ ...options, piece: stop, kind: "if", head: elseIf })];
  } else if (stop.text === "else") {
    const last = parseBody(file, pieces);
    if (last.stop?.text !== "end") throw new Error(`${place}: else has no end`);
    otherwise = last.nodes;
  }
  return {
    kind,
    variables: value === undefined ? [] : names.split(",").map((name) => name.trim()),
    pipeline: parsePipeline(place, value ?? head),
    body,
    otherwise,
  };
};

const TOKEN =
  /\s*("(?:\\.|[^"\\])*"|`[^`]*`|-?\d+(?![\w.])|[()|]|\$\w*(?:\.\w+)*|(?:\.\w+)+|\.|\w+)/uy;

const parsePipeline = (place: string, text: string): Pipeline => {
  const tokens: string[] = [];
  const trimmed = text.trim();
  TOKEN.lastIndex = 0;
  let at = 0;
  while (at < trimmed.length) {
    const match = TOKEN.exec(trimmed);
    if (match?.[1] === undefined) {
      throw new Error(`${place}: ${trimmed.slice(at)} is not understood`);
    }
    tokens.push(match[1]);
    at = TOKEN.lastIndex;
  }
  const pipeline = takePipeline(place, tokens);
  if (tokens.length > 0) throw new Error(`${place}: ) without (`);
  return pipeline;
};

/** Takes tokens from the front until the end or a closing parenthesis, which stays. */
const takePipeline = (place: string, tokens: string[]): Pipeline => {
  const commands: Operand[][] = [[]];
  while (tokens.length > 0 && tokens[0] !== ")") {
    const token = tokens.shift() ?? "";
    if (token === "|") commands.push([]);
    else commands.at(-1)?.push(operand(place, token, tokens));
  }
  if (commands.some((command) => command.length === 0)) {
    throw new Error(`${place}: a pipeline has an empty part`);
  }
  return commands;
};

const operand = (place: string, token: string, tokens: string[]): Operand => {
  if (token === "(") {
    const pipeline = takePipeline(place, tokens);
    if (tokens.shift() !== ")") throw new Error(`${place}: ( without )`);
    return { kind: "pipeline", pipeline };
  }
  if (token.startsWith('"')) return { kind: "literal", value: String(JSON.parse(token)) };
  if (token.startsWith("`")) return { kind: "literal", value: token.slice(1, -1) };
  if (/^-?\d/u.test(token)) return { kind: "literal", value: Number(token) };
  if (token === "true" || token === "false") return { kind: "literal", value: token === "true" };
  if (token.startsWith(".")) {
    return { kind: "path", variable: null, fields: token.split(".").filter((f) => f !== "") };
  }
  if (token.startsWith("$")) {
    const [variable = "$", ...fields] = token.split(".");
    return { kind: "path", variable, fields };
  }
  return { kind: "function", name: token };
};
