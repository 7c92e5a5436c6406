/** Renders parsed templates as Helm would (helm.sh/docs/chart_template_guide), with the functions that our charts use. */

import { stringify } from "yaml";
import type { BranchNode, Command, Operand, Pipeline, TemplateNode } from "./template-parser.ts";

/** What the dot is at the top: `.Values`, `.Release`, `.Chart`, `.Files`. */
export interface TemplateData {
  readonly Values: unknown;
  readonly Release: { readonly Name: string; readonly Namespace: string };
  readonly Chart: { readonly AppVersion: string };
}

export interface TemplateSet {
  /** All files of the templates folder, parsed; `define` in any of them is known to all. */
  readonly files: ReadonlyMap<string, readonly TemplateNode[]>;
  readonly data: TemplateData;
  /** The chart's other files by path, for `.Files`. */
  readonly sources: ReadonlyMap<string, string>;
}

type Variables = ReadonlyMap<string, unknown>;

interface Scope {
  readonly dot: unknown;
  /** Grows by assignments in this block. */
  readonly variables: Map<string, unknown>;
}

/** Renders every file that is no partial (`_name`), by name. Throws an Error for what it does not know. */
export const renderTemplates = (set: TemplateSet): ReadonlyMap<string, string> => {
  const renderer = new Renderer(set);
  const shown = [...set.files].filter(([file]) => !file.startsWith("_"));
  return new Map(shown.map(([file, nodes]) => [file, renderer.file(nodes)]));
};

class Renderer {
  readonly #root: unknown;
  readonly #defined = new Map<string, readonly TemplateNode[]>();

  constructor({ files, data, sources }: TemplateSet) {
    const glob = (pattern: unknown): unknown =>
      Object.fromEntries(
        [...sources]
          .filter(([path]) => matches(path, text(pattern)))
          .toSorted(([a], [b]) => (a < b ? -1 : 1)),
      );
    // Methods are functions here: a path that ends at one is called with what follows.
    this.#root = {
      ...data,
      Files: { Get: (path: unknown) => sources.get(text(path)) ?? "", Glob: glob },
    };
    for (const node of [...files.values()].flat()) {
      if (node.kind === "define") this.#defined.set(node.name, node.body);
    }
  }

  file(nodes: readonly TemplateNode[]): string {
    return this.#block(nodes, this.#root, new Map([["$", this.#root]]));
  }

  #block(nodes: readonly TemplateNode[], dot: unknown, outer: Variables): string {
    const scope: Scope = { dot, variables: new Map(outer) };
    return nodes.map((node) => this.#node(node, scope)).join("");
  }

  #node(node: TemplateNode, scope: Scope): string {
    switch (node.kind) {
      case "text":
        return node.text;
      case "print":
        return text(this.#pipeline(node.pipeline, scope));
      case "assign":
        scope.variables.set(node.variable, this.#pipeline(node.pipeline, scope));
        return "";
      case "define":
        return "";
      case "if":
      case "with":
      case "range":
        return this.#branch(node, scope);
    }
  }

  #branch(node: BranchNode, scope: Scope): string {
    const value = this.#pipeline(node.pipeline, scope);
    const { dot, variables } = scope;
    if (!isTrue(value)) return this.#block(node.otherwise, dot, variables);
    if (node.kind !== "range") {
      return this.#block(node.body, node.kind === "with" ? value : dot, variables);
    }
    const entries = Object.entries(Object(value));
    // Go visits a map by its sorted keys.
    const visited = Array.isArray(value)
      ? entries
      : entries.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return visited
      .map(([key, item]) => {
        const values = node.variables.length === 1 ? [item] : [key, item];
        const own = node.variables.map((name, index) => [name, values[index]] as const);
        return this.#block(node.body, item, new Map([...variables, ...own]));
      })
      .join("");
  }

  #pipeline(pipeline: Pipeline, scope: Scope): unknown {
    let last: readonly unknown[] = [];
    for (const command of pipeline) last = [this.#command(command, last, scope)];
    return last[0];
  }

  #command(command: Command, piped: readonly unknown[], scope: Scope): unknown {
    const [head, ...rest] = command;
    if (head === undefined) return undefined;
    const args = (): unknown[] => [...rest.map((o) => this.#operand(o, scope)), ...piped];
    if (head.kind === "function") return this.#call(head.name, args());
    const value = this.#operand(head, scope);
    const given = args();
    if (typeof value === "function") return Reflect.apply(value, undefined, given);
    if (given.length > 0) throw new Error("a template gives arguments to what is no function");
    return value;
  }

  #operand(operand: Operand, scope: Scope): unknown {
    switch (operand.kind) {
      case "literal":
        return operand.value;
      case "pipeline":
        return this.#pipeline(operand.pipeline, scope);
      case "function":
        return this.#call(operand.name, []);
      case "path": {
        const { variable, fields } = operand;
        if (variable !== null && !scope.variables.has(variable)) {
          throw new Error(`a template uses ${variable}, which is not set`);
        }
        const start = variable === null ? scope.dot : scope.variables.get(variable);
        return fields.reduce((value, field) => member(value, field), start);
      }
    }
  }

  #call(name: string, args: readonly unknown[]): unknown {
    if (name === "include") {
      const body = this.#defined.get(text(args[0]));
      if (body === undefined)
        throw new Error(`a template includes ${text(args[0])}, which is not defined`);
      return this.#block(body, args[1], new Map([["$", args[1]]]));
    }
    const known = FUNCTIONS[name];
    if (known === undefined) throw new Error(`a template calls ${name}, which is not known here`);
    return known(...args);
  }
}

/** Of Go, Sprig and Helm, by name. */
const FUNCTIONS: Readonly<Record<string, (...args: readonly unknown[]) => unknown>> = {
  and: (...args) => args.find((arg) => !isTrue(arg)) ?? args.at(-1),
  default: (fallback, value) => (isTrue(value) ? value : fallback),
  dict: (...args) =>
    Object.fromEntries(
      args.flatMap((key, index) => (index % 2 === 0 ? [[text(key), args[index + 1]]] : [])),
    ),
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  nindent: (spaces, value) => `\n${text(value).replaceAll(/^/gmu, " ".repeat(Number(spaces)))}`,
  not: (value) => !isTrue(value),
  omit: (value, ...names) =>
    Object.fromEntries(Object.entries(Object(value)).filter(([name]) => !names.includes(name))),
  or: (...args) => args.find((arg) => isTrue(arg)) ?? args.at(-1),
  printf: (format, ...args) => {
    const values = args.values();
    return text(format).replaceAll("%s", () => text(values.next().value));
  },
  quote: (value) => JSON.stringify(text(value)),
  replace: (from, to, value) => text(value).replaceAll(text(from), () => text(to)),
  toYaml: (value) => stringify(value, { lineWidth: 0, indentSeq: false }).trimEnd(),
};

/** Go's truth: the zero value of each kind is false. */
const isTrue = (value: unknown): boolean => {
  if (value === undefined || value === null || value === false || value === 0 || value === "") {
    return false;
  }
  return typeof value !== "object" || Object.keys(value).length > 0;
};

const text = (value: unknown): string => {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
};

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;

/** A pattern with `*` for a part without slashes. */
const matches = (path: string, pattern: string): boolean =>
  new RegExp(
    `^${pattern
      .split("*")
      .map((part) => RegExp.escape(part))
      .join("[^/]*")}$`,
    "u",
  ).test(path);
