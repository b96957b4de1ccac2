import type { SimpleCommand } from './commands.ts'
import { writtenBy } from './feed.ts'

interface Written {
  readonly texts: string[]
  isFetched: boolean
}

const NOTHING: Readonly<Written> = { texts: [], isFetched: false }

const FETCHER = /^(?:curl|wget|aria2c|https?|xh|fetch)$/
/** Flags of download programs that name the output file. */
const OUTPUT_FLAG = /^(?:-[A-Za-z]*[oO]|--output|--output-document)$/

/** The files that a command line writes, as far as its text shows. */
export class WrittenFiles {
  readonly #files = new Map<string, Written>()

  note(command: SimpleCommand): void {
    const { words, outputs, documents, feed } = command
    const [name = '', ...args] = words.map(({ text }) => text)
    const isFetched = FETCHER.test(name)
    const input = feed?.kind === 'text' ? [...documents, feed.text] : documents
    const texts = name === 'echo' || name === 'printf' ? [writtenBy(command) ?? args.join(' ')] : input
    const named = isFetched ? args.filter((_arg, i) => OUTPUT_FLAG.test(args[i - 1] ?? '')) : []
    const copied = name === 'tee' ? args.filter((arg) => !arg.startsWith('-')) : []
    for (const path of [...outputs, ...named, ...copied]) {
      const file = this.#files.get(plain(path)) ?? { texts: [], isFetched: false }
      file.texts.push(...texts)
      file.isFetched ||= isFetched
      this.#files.set(plain(path), file)
    }
  }

  read(path: string): Readonly<Written> {
    return this.#files.get(plain(path)) ?? NOTHING
  }
}

const plain = (path: string) => path.replace(/^(?:\.\/+)+/, '')
