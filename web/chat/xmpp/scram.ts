/** SCRAM (RFC 5802, RFC 7677) without channel binding, by the browser's own cryptography. */

const encoder = new TextEncoder();
const toBase64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A server that asks for more rounds would only keep the page busy. */
const ITERATIONS_MAX = 1_000_000;

export async function hmac(hash: string, key: Uint8Array<ArrayBuffer>, data: Uint8Array<ArrayBuffer>) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

export class Scram {
  #bare: string;
  #auth = "";
  #saltedPassword?: Uint8Array<ArrayBuffer>;

  /** `hash` as Web Cryptography names it, such as `SHA-256`. */
  constructor(private hash: string, user: string, private password: string, private nonce: string) {
    const name = user.normalize("NFKC").replace(/=/g, "=3D").replace(/,/g, "=2C");
    this.#bare = `n=${name},r=${nonce}`;
  }

  first = () => `n,,${this.#bare}`;

  /** The answer to the server's first message. */
  async final(challenge: string): Promise<string> {
    const parts = attributes(challenge);
    const [nonce, salt, rounds] = [parts.r ?? "", parts.s ?? "", Number(parts.i)];
    if (!nonce.startsWith(this.nonce) || nonce === this.nonce) throw new Error("The server answered another login.");
    if (!(rounds >= 1 && rounds <= ITERATIONS_MAX)) throw new Error("The server asks for too much work to log in.");
    const password = await crypto.subtle.importKey("raw", encoder.encode(this.password.normalize("NFKC")), "PBKDF2", false, ["deriveBits"]);
    const bits = Number(this.hash.split("-")[1]) === 1 ? 160 : Number(this.hash.split("-")[1]);
    const derive = { name: "PBKDF2", hash: this.hash, salt: fromBase64(salt), iterations: rounds };
    this.#saltedPassword = new Uint8Array(await crypto.subtle.deriveBits(derive, password, bits));
    const clientKey = await hmac(this.hash, this.#saltedPassword, encoder.encode("Client Key"));
    const storedKey = new Uint8Array(await crypto.subtle.digest(this.hash, clientKey));
    const withoutProof = `c=biws,r=${nonce}`;
    this.#auth = `${this.#bare},${challenge},${withoutProof}`;
    const signature = await hmac(this.hash, storedKey, encoder.encode(this.#auth));
    return `${withoutProof},p=${toBase64(clientKey.map((byte, at) => byte ^ signature[at]!))}`;
  }

  /** Whether the server knows the password, too. */
  async verify(answer: string): Promise<boolean> {
    if (!this.#saltedPassword) return false;
    const serverKey = await hmac(this.hash, this.#saltedPassword, encoder.encode("Server Key"));
    return attributes(answer).v === toBase64(await hmac(this.hash, serverKey, encoder.encode(this.#auth)));
  }
}

const attributes = (message: string): Record<string, string | undefined> =>
  Object.fromEntries(message.split(",").map((part) => [part[0] ?? "", part.slice(2)]));
