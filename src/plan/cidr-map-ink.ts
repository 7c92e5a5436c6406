/** Text of SVG: escaped, placed, cut into lines. */

/** For text and attributes of XML. */
export const escaped = (value: string): string =>
  value.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

/** One line of text; `size` in pixels. Spaces at its begin stay. */
export const text = (
  style: {
    readonly x: number;
    readonly y: number;
    readonly size: number;
    readonly fill?: string;
    readonly weight?: "bold";
    readonly anchor?: "end" | "middle";
  },
  value: string,
): string => {
  const { x, y, size, fill = "#111111", weight, anchor } = style;
  const bold = weight === undefined ? "" : ` font-weight="${weight}"`;
  const anchored = anchor === undefined ? "" : ` text-anchor="${anchor}"`;
  return `<text x="${rounded(x)}" y="${rounded(y)}" font-size="${size}" fill="${fill}" xml:space="preserve"${bold}${anchored}>${escaped(value)}</text>`;
};

/** Hundredths of a pixel are enough, and keep pictures small. */
export const rounded = (value: number): number => Math.round(value * 100) / 100;

/** Cuts a sentence between words into lines of at most `chars`, if its words allow it. */
export const wrapped = (sentence: string, chars: number): string[] => {
  const lines: string[] = [];
  let line = "";
  for (const word of sentence.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > chars) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
};
