/** Forms (XEP-0004). */

import { all, attr, first, textOf, x } from "../xmpp/xml";

export const NS = "jabber:x:data";

export const submit = (type: string, fields: Record<string, string>) =>
  x("x", { xmlns: NS, type: "submit" },
    x("field", { var: "FORM_TYPE", type: "hidden" }, x("value", {}, type)),
    ...Object.entries(fields).map(([name, value]) => x("field", { var: name }, x("value", {}, value))));

/** The fields of a form by their names. */
export function read(parent: Element | undefined): Map<string, string> {
  const form = first(parent, "x", NS);
  return new Map(form ? all(form, "field").map((field) => [attr(field, "var") ?? "", textOf(field, "value") ?? ""]) : []);
}
