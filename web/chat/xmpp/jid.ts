/** Addresses (RFC 7622). */

export const bare = (jid: string) => jid.split("/", 1)[0]!.toLowerCase();
export const resource = (jid: string) => (jid.includes("/") ? jid.slice(jid.indexOf("/") + 1) : "");
export const local = (jid: string) => (bare(jid).includes("@") ? bare(jid).split("@")[0]! : "");
export const domain = (jid: string) => bare(jid).split("@").at(-1)!;

/** Whether a text that somebody typed may be a bare JID with a local part. */
export const isAddress = (text: string) => /^[^\s"&'/:<>@]{1,1023}@[^\s"&'/:<>@]{1,1023}$/.test(text);

/** What a typed name means: an address, or a name at this domain. */
export const complete = (text: string, at: string) => bare(text.trim().includes("@") ? text.trim() : `${text.trim()}@${at}`);
