// All tests that take a browser: of that which BROWSER names.
import "./throng_js.mjs";
import "./without.mjs";
import "./xmpp.mjs";
