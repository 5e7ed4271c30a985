/** A file of prompts' hashes, one line a request, in Mooncake's form. */
export interface PromptTraceSettings {
  /** Absent: none is written. */
  readonly file?: string;
  /** Past this size nothing more is written. */
  readonly maxBytes: number;
}
