/** XML: stanzas to send are trees of plain data, and those received are the browser's elements. */

export interface Node {
  name: string;
  attrs: Record<string, string | undefined>;
  children: (Node | string)[];
}

/** An element to send. Children that are undefined or false are left out. */
export function x(name: string, attrs: Node["attrs"] = {}, ...children: (Node | string | undefined | false)[]): Node {
  return { name, attrs, children: children.filter((child): child is Node | string => child !== undefined && child !== false) };
}

/** Characters that XML 1.0 cannot carry (2.2), lone surrogates among them. */
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };
const escape = (text: string) => text.replace(FORBIDDEN, "\ufffd").replace(/[&<>"']/g, (c) => ENTITIES[c]!);

export function write(node: Node | string): string {
  if (typeof node === "string") return escape(node);
  const attrs = Object.entries(node.attrs).map(([name, value]) => (value === undefined ? "" : ` ${name}='${escape(value)}'`));
  const content = node.children.map(write).join("");
  return `<${node.name}${attrs.join("")}${content === "" ? "/>" : `>${content}</${node.name}>`}`;
}

/** Throws if the text is not well-formed. */
export function parse(text: string): Element {
  const document = new DOMParser().parseFromString(text, "text/xml");
  if (document.getElementsByTagName("parsererror").length > 0) throw new Error("The server sent something that is not XML.");
  return document.documentElement;
}

/** The children with this name, in this namespace or else in that of the parent. */
export const all = (parent: Element, name: string, ns: string | null = parent.namespaceURI) =>
  [...parent.children].filter((child) => child.localName === name && child.namespaceURI === ns);

export const first = (parent: Element | undefined, name: string, ns?: string) => parent && all(parent, name, ns)[0];

/** The text of a child, if there is one. */
export const textOf = (parent: Element | undefined, name: string, ns?: string) => first(parent, name, ns)?.textContent ?? undefined;

export const attr = (element: Element | undefined, name: string) => element?.getAttribute(name) ?? undefined;

/** An identifier that nobody guesses. `crypto.randomUUID` exists on secure pages only. */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
