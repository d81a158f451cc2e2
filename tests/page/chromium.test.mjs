// Everything in Chromium.
process.env.BROWSER = "chromium";
await import("./every.mjs");
