import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Client } from "../client/client";
import type { Observable } from "../store/observable";

const EVERY_MS = 16;

/** Shows a component again when this has changed: once for all that changes in a moment. */
export function useChanges(...all: (Observable | undefined)[]) {
  const [, show] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listener = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        show((count) => count + 1);
      }, EVERY_MS);
    };
    const ends = all.map((one) => one?.listen(listener));
    // What changed between the first look and this is seen, too.
    listener();
    return () => {
      clearTimeout(timer);
      for (const end of ends) end?.();
    };
  }, all);
}

export const ClientContext = createContext<Client>(undefined as never);
export const useClient = () => useContext(ClientContext);
