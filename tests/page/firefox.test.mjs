// Everything in Firefox.
process.env.BROWSER = "firefox";
await import("./every.mjs");
