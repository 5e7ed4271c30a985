/**
 * Reads one chunk's extensions byte by byte, only to know that they are well formed (RFC 9112 section 7.1.1, without the
 * optional blanks, which Node's parser refuses too) and where they end. What they say is ignored.
 */
import { textBytes, tokenBytes } from './head-lines.ts';

type Part = 'name' | 'value' | 'quoted' | 'escaped' | 'after_quoted';

const SEMICOLON = 59;
const EQUALS = 61;
const QUOTE = 34;
const BACKSLASH = 92;

export class ChunkExtension {
  bytes = 0;
  #part: Part = 'name';
  /** Bytes of the name or value at hand; none may be empty. */
  #partBytes = 0;

  /** The next byte follows the semicolon of a chunk's first extension. */
  begin(): void {
    this.bytes = 0;
    this.#next('name');
  }

  /** The line may end here. */
  get mayEnd(): boolean {
    return this.#part === 'after_quoted' || ((this.#part === 'name' || this.#part === 'value') && this.#partBytes > 0);
  }

  /** @returns false when the byte can't stand here */
  take(byte: number): boolean {
    this.bytes += 1;
    switch (this.#part) {
      case 'quoted':
        if (byte === QUOTE) this.#part = 'after_quoted';
        else if (byte === BACKSLASH) this.#part = 'escaped';
        return textBytes[byte] === 1;
      case 'escaped':
        this.#part = 'quoted';
        return textBytes[byte] === 1;
      case 'after_quoted':
        return byte === SEMICOLON && this.#next('name');
      default:
        return this.#word(byte);
    }
  }

  #word(byte: number): boolean {
    if (tokenBytes[byte] === 1) {
      this.#partBytes += 1;
      return true;
    }
    if (byte === SEMICOLON) return this.#partBytes > 0 && this.#next('name');
    if (this.#part === 'name') return byte === EQUALS && this.#partBytes > 0 && this.#next('value');
    return byte === QUOTE && this.#partBytes === 0 && this.#next('quoted');
  }

  #next(part: Part): true {
    this.#part = part;
    this.#partBytes = 0;
    return true;
  }
}
