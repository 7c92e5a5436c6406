/** What a gateway remembers of its slot over a restart of its container. */

export interface SlotMemory {
  /** The text written last; null: none. Never throws: an unreadable memory is no memory. */
  read(): Promise<string | null>;
  /** Replaces the text atomically. Throws HostError `io`. */
  write(text: string): Promise<void>;
  /** Absent is success. */
  forget(): Promise<void>;
}
