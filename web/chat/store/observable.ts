/** State that tells those who show it that it has changed. */
export class Observable {
  #listeners = new Set<() => void>();

  listen(listener: () => void) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed() {
    for (const listener of this.#listeners) listener();
  }
}
