import type { Word } from './words.ts'

/** How the arguments of a command that runs another command are read up to that command. */
interface Wrapper {
  /** Letters of short flags that take a value as the next word. */
  readonly valued: string
  /** Words before the command: a duration, a host, a folder. */
  readonly operands: number
  /** Its words can also be whole scripts. */
  readonly takesScript?: boolean
}

const plain: Wrapper = { valued: '', operands: 0 }

/** Commands that run the command in their arguments, with the flags that their manuals give. */
const WRAPPERS: Readonly<Record<string, Wrapper>> = {
  sudo: { valued: 'ughpCrtDRTU', operands: 0 },
  doas: { valued: 'uC', operands: 0 },
  env: { valued: 'uCS', operands: 0, takesScript: true },
  xargs: { valued: 'adEILnPs', operands: 0 },
  timeout: { valued: 'ks', operands: 1 },
  gtimeout: { valued: 'ks', operands: 1 },
  nice: { valued: 'n', operands: 0 },
  ionice: { valued: 'cnp', operands: 0 },
  chrt: { valued: 'p', operands: 1 },
  taskset: { valued: 'p', operands: 1 },
  nohup: plain,
  setsid: plain,
  setarch: { valued: '', operands: 1 },
  stdbuf: { valued: 'ioe', operands: 0 },
  time: { valued: 'fo', operands: 0 },
  command: plain,
  builtin: plain,
  coproc: plain,
  exec: { valued: 'a', operands: 0 },
  chroot: { valued: '', operands: 1 },
  unshare: { valued: 'RwSG', operands: 0 },
  nsenter: { valued: 'tSG', operands: 0 },
  flock: { valued: 'wEc', operands: 1, takesScript: true },
  strace: { valued: 'opeEsuP', operands: 0 },
  ltrace: { valued: 'opesu', operands: 0 },
  busybox: plain,
  toybox: plain,
  watch: { valued: 'n', operands: 0, takesScript: true },
  ssh: { valued: 'bcDEeFIiJLlmOopQRSWw', operands: 1, takesScript: true },
  su: { valued: 'cgGs', operands: 1, takesScript: true },
  runuser: { valued: 'cgGsu', operands: 0, takesScript: true },
  script: { valued: 'cEIOBTt', operands: 1, takesScript: true },
  parallel: { valued: 'jaS', operands: 0, takesScript: true },
  bwrap: plain,
  firejail: plain,
  caffeinate: { valued: 'tw', operands: 0 },
}

/** Most words of one command that are tried as the beginning of a wrapped one. */
const MAX_SUFFIXES = 64

/** What a command runs: every wrapped command it could mean, scripts in its words, and the word that is run. */
export interface Unwrapped {
  readonly commands: readonly (readonly Word[])[]
  readonly scripts: readonly Word[]
  /** The word that names the wrapped command, by the wrapper's flags. */
  readonly head: Word | undefined
}

const NOTHING: Unwrapped = { commands: [], scripts: [], head: undefined }

/**
 * Looks through commands that run others. Every later word is tried as the beginning of the wrapped command, so
 * that no flag table has to be complete for a match; the table only finds the word whose text must be known.
 */
export function unwrap(name: string, words: readonly Word[]): Unwrapped {
  if (name === 'find') return { ...NOTHING, commands: findCommands(words) }
  const wrapper = WRAPPERS[name]
  if (!wrapper) return NOTHING
  const rest = words.slice(1)
  const starts = rest.slice(0, MAX_SUFFIXES).flatMap((word, i) => (word.text.startsWith('-') ? [] : [i]))
  return {
    commands: starts.map((start) => rest.slice(start)),
    scripts: wrapper.takesScript ? rest.filter((word) => /\s/.test(word.text)) : [],
    head: headOf(wrapper, rest),
  }
}

function headOf(wrapper: Wrapper, words: readonly Word[]): Word | undefined {
  let operands = wrapper.operands
  for (let i = 0; i < words.length; i++) {
    const { text } = words[i] as Word
    if (/^-[A-Za-z]$/.test(text) && wrapper.valued.includes(text.slice(1))) i++
    else if (text.startsWith('-') || /^[A-Za-z_]\w*=/.test(text)) continue
    else if (operands > 0) operands--
    else return words[i]
  }
  return undefined
}

/** The commands of `find -exec … ;`. */
function findCommands(words: readonly Word[]): Word[][] {
  const commands: Word[][] = []
  let open: Word[] | undefined
  for (const word of words) {
    if (/^-(?:exec|ok)(?:dir)?$/.test(word.text)) {
      open = []
      commands.push(open)
    } else if (word.text === ';' || word.text === '+') open = undefined
    else open?.push(word)
  }
  return commands
}
