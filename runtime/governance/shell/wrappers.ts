import type { SimpleCommand } from './commands.ts'
import { UNKNOWN, WORDS } from './marks.ts'
import { anyWords, nameOf } from './view.ts'
import { type Word, wordOf } from './words.ts'

/** How to parse the arguments of a command that runs another command. */
interface Wrapper {
  /** Short flags that take the next word as a value. */
  readonly valued: string
  /** Number of words before the command: a duration, a host, a directory. */
  readonly operands: number
  /** All other short flags. Set only if the table is complete; the position of the command is then certain. */
  readonly bare?: string
  /** Whether an argument can be a whole script. */
  readonly takesScript?: boolean
  /** It runs a command only after one of these words. Text between that word and the command is skipped. */
  readonly behind?: readonly string[]
}

const plain: Wrapper = { valued: '', operands: 0 }
const runner = (...behind: string[]): Wrapper => ({ ...plain, takesScript: true, behind })

/** Commands that run the command in their arguments, with the flags from their manuals. */
const WRAPPERS: Readonly<Record<string, Wrapper>> = {
  sudo: { valued: 'ughpCrtDRTU', operands: 0 },
  doas: { valued: 'uC', operands: 0 },
  env: { valued: 'uCS', operands: 0, takesScript: true },
  xargs: { valued: 'adEILnPs', operands: 0, bare: '0eiloprtx' },
  timeout: { valued: 'ks', operands: 1, bare: 'vfp' },
  gtimeout: { valued: 'ks', operands: 1, bare: 'vfp' },
  nice: { valued: 'n', operands: 0, bare: '0123456789' },
  ionice: { valued: 'cnp', operands: 0 },
  chrt: { valued: 'p', operands: 1 },
  taskset: { valued: 'p', operands: 1 },
  nohup: { ...plain, bare: '' },
  setsid: { ...plain, bare: 'cfw' },
  setarch: { valued: '', operands: 1 },
  stdbuf: { valued: 'ioe', operands: 0, bare: '' },
  time: { valued: 'fo', operands: 0 },
  command: { ...plain, bare: 'pvV' },
  builtin: { ...plain, bare: '' },
  coproc: plain,
  exec: { valued: 'a', operands: 0, bare: 'cl' },
  chroot: { valued: '', operands: 1 },
  unshare: { valued: 'RwSG', operands: 0 },
  nsenter: { valued: 'tSG', operands: 0 },
  flock: { valued: 'wEc', operands: 1, takesScript: true },
  strace: { valued: 'opeEsuP', operands: 0 },
  ltrace: { valued: 'opesu', operands: 0 },
  busybox: plain,
  toybox: plain,
  watch: { valued: 'n', operands: 0, takesScript: true },
  entr: plain,
  ssh: { valued: 'bcDEeFIiJLlmOopQRSWw', operands: 1, takesScript: true },
  su: { valued: 'cgGs', operands: 1, takesScript: true },
  runuser: { valued: 'cgGsu', operands: 0, takesScript: true },
  script: { valued: 'cEIOBTt', operands: 1, takesScript: true },
  parallel: { valued: 'jaS', operands: 0, takesScript: true },
  bwrap: plain,
  firejail: plain,
  caffeinate: { valued: 'tw', operands: 0 },
  cpulimit: { valued: 'lpe', operands: 0 },
  setpriv: plain,
  prlimit: plain,
  linux32: plain,
  linux64: plain,
  pwsh: { ...plain, takesScript: true },
  powershell: { ...plain, takesScript: true },
  numactl: { valued: 'NmipC', operands: 0 },
  valgrind: plain,
  unbuffer: plain,
  rlwrap: plain,
  chronic: plain,
  fakeroot: plain,
  proot: { valued: 'rbqwkiR', operands: 0 },
  'xvfb-run': { valued: 'efnps', operands: 0 },
  catchsegv: plain,
  eatmydata: plain,
  tini: plain,
  daemonize: plain,
  'ld.so': plain,
  'ld-linux-x86-64.so.2': plain,
  'ld-linux-aarch64.so.1': plain,
  'dumb-init': plain,
  'systemd-run': { valued: 'pMHu', operands: 0 },
  'dbus-run-session': plain,
  pkexec: plain,
  run0: { valued: 'ugDM', operands: 0 },
  tmux: { valued: 'cnstxy', operands: 1, takesScript: true },
  screen: { valued: 'cSst', operands: 0, takesScript: true },
  hyperfine: { valued: 'rwmM', operands: 0, takesScript: true },
  cmake: runner('-E'),
  docker: runner('exec', 'run'),
  podman: runner('exec', 'run'),
  nerdctl: runner('exec', 'run'),
  'docker-compose': runner('exec', 'run'),
  kubectl: runner('exec', 'run', 'debug'),
  oc: runner('exec', 'run', 'rsh'),
  npx: runner('npx'),
  bunx: runner('bunx'),
  npm: runner('exec', 'x'),
  pnpm: runner('exec', 'dlx'),
  yarn: runner('exec', 'dlx'),
  bun: runner('x'),
  pipx: runner('run'),
  uvx: runner('uvx'),
  uv: runner('run'),
  poetry: runner('run'),
  pipenv: runner('run'),
  pdm: runner('run'),
  hatch: runner('run'),
  bundle: runner('exec'),
  mise: runner('exec', 'x'),
  direnv: runner('exec'),
  dotenv: runner('dotenv'),
  'nix-shell': runner('nix-shell'),
  nix: runner('develop', 'shell', 'run'),
  git: runner('foreach', 'run', '--exec', '-x', '--upload-pack', '--receive-pack'),
  python: runner('-m'),
  python3: runner('-m'),
}

/** Maximum number of words per command that are tried as the start of a wrapped command. */
const MAX_SUFFIXES = 64

/** Everything that a wrapper may run. */
export interface Unwrapped {
  readonly commands: readonly (readonly Word[])[]
  readonly scripts: readonly Word[]
  /** Words that only some programs run as scripts. */
  readonly guesses?: readonly Word[]
  /** The word that names the wrapped command according to the wrapper's flags. */
  readonly head: Word | undefined
}

const NOTHING: Unwrapped = { commands: [], scripts: [], head: undefined }

/**
 * Finds the commands inside a wrapper such as `sudo`. If not all flags of the wrapper are known, every later
 * word is tried as the start of the wrapped command, so a match does not depend on complete tables. The table
 * then only decides which word must be known before the command runs.
 */
export function unwrap(words: readonly Word[], command: SimpleCommand): Unwrapped {
  const name = nameOf(words)
  if (name === 'find' || name === 'fd') return { ...NOTHING, commands: findCommands(words) }
  const wrapper = Object.hasOwn(WRAPPERS, name) ? WRAPPERS[name] : undefined
  if (!wrapper) return NOTHING
  const own = words.slice(1)
  return wrapper.behind ? behindWord(wrapper.behind, name, own) : behindFlags(wrapper, words, command)
}

function behindFlags(wrapper: Wrapper, words: readonly Word[], command: SimpleCommand): Unwrapped {
  const name = nameOf(words)
  const own = words.slice(1)
  const { head, isSure } = findHead(wrapper, own)
  if (head === undefined && (isSure || name === 'xargs')) return NOTHING
  const given = name === 'xargs' ? withItems(own, command) : own
  const starts = isSure && head !== undefined ? [own.indexOf(head)] : everyStart(given)
  const scripts = wrapper.takesScript ? scriptsAmong(given) : []
  return { commands: starts.map((start) => given.slice(start)), scripts, head }
}

const everyStart = (words: readonly Word[]): number[] =>
  words.slice(0, MAX_SUFFIXES).flatMap((word, i) => (word.text.startsWith('-') ? [] : [i]))

const scriptsAmong = (words: readonly Word[]) =>
  words.filter((word) => /\s/.test(word.text)).flatMap(withoutFlag)

/** A script can follow its flag in the same word (`-S'rm x'`, `--command='rm x'`). Both readings are judged. */
function withoutFlag(word: Word): Word[] {
  const text = word.text.replace(/^(?:--[a-z-]+=|-[A-Za-z]*?[cS])/, '')
  return text === word.text ? [word] : [word, { ...word, text }]
}

function behindWord(behind: readonly string[], name: string, words: readonly Word[]): Unwrapped {
  const at = behind.includes(name) ? 0 : words.findIndex(({ text }) => behind.includes(text)) + 1
  if (at === 0 && !behind.includes(name)) return NOTHING
  const rest = words.slice(at)
  const commands = everyStart(rest).map((start) => rest.slice(start))
  return { ...NOTHING, commands, guesses: scriptsAmong(rest) }
}

interface Head {
  readonly head: Word | undefined
  readonly isSure: boolean
}

function findHead({ valued, operands, bare }: Wrapper, words: readonly Word[]): Head {
  const takesNext = (text: string) => /^-[A-Za-z]$/.test(text) && valued.includes(text.slice(1))
  const isFlag = (text: string) => text.startsWith('-') && text !== '-'
  const given = words.filter(({ text }, i) => !takesNext(words[i - 1]?.text ?? '') || isFlag(text))
  const others = given.filter(({ text }) => !isFlag(text) && !/^[A-Za-z_]\w*=/.test(text))
  // `WORDS` can stand for any number of words, the command among them.
  const head = given.slice(0, operands + 1).find(({ text }) => text.includes(WORDS)) ?? others[operands]
  const flags = given
    .slice(0, head && given.indexOf(head))
    .filter(({ text }) => isFlag(text) && text !== '--')
  const isSure = bare !== undefined && flags.every(({ text }) => isKnownFlag(text, valued, bare))
  return { head, isSure }
}

/** Whether a flag takes no value, or a value whose position is known. */
function isKnownFlag(text: string, valued: string, bare: string): boolean {
  if (text.startsWith('--')) return text.includes('=')
  const letters = [...text.slice(1)]
  const last = letters.findIndex((letter) => valued.includes(letter))
  const before = last < 0 ? letters : letters.slice(0, last)
  return before.every((letter) => bare.includes(letter)) && (last <= 0 || last < letters.length - 1)
}

/** `xargs` appends the words that it reads to its command. */
function withItems(words: readonly Word[], { feed, documents, inputs }: SimpleCommand): readonly Word[] {
  const texts = [...documents, ...(feed?.kind === 'text' ? [feed.text] : [])]
  const isKnown = texts.length > 0 && inputs.length === 0
  const items = isKnown
    ? texts.flatMap((text) => text.split(separatorOf(words))).filter((item) => item !== '')
    : [anyWords(feed?.kind ?? 'unknown')]
  const marker = replaced(words)
  const filled = marker === undefined ? words : words.map((word) => filledIn(word, marker, items))
  return marker === undefined
    ? [...words, ...items.map((item) => wordOf(item.replace(/^["']|["']$/g, '')))]
    : filled
}

/** With `-0` and `-d`, blanks are part of an item. */
const separatorOf = (words: readonly Word[]): RegExp =>
  words.some(({ text }) => /^(?:-\w*0|-d|--null|--delimiter)/.test(text)) ? /[\n\0]+/ : /[\s\0]+/

/** The text that `xargs -I` replaces with an item. */
function replaced(words: readonly Word[]): string | undefined {
  const at = words.findIndex(({ text }) => /^-I|^--replace|^-i/.test(text))
  const text = words[at]?.text
  if (text === undefined) return undefined
  if (text === '-I') return words[at + 1]?.text
  return /^(?:-[Ii]|--replace=)(.+)$/.exec(text)?.[1] ?? '{}'
}

function filledIn(word: Word, marker: string, items: readonly string[]): Word {
  if (marker === '' || !word.text.includes(marker) || word.text === `-I${marker}`) return word
  // `-I` inserts each item as one word.
  const item = items.join(' ').replaceAll(WORDS, UNKNOWN)
  return { ...word, ...wordOf(word.text.replaceAll(marker, item)), isPattern: word.isPattern }
}

/** The commands of `find -exec … ;` and `fd -x …`. */
function findCommands(words: readonly Word[]): Word[][] {
  const commands: Word[][] = []
  let open: Word[] | undefined
  for (const word of words) {
    if (/^(?:-(?:exec|ok)(?:dir)?|-[xX]|--exec(?:-batch)?)$/.test(word.text)) {
      open = []
      commands.push(open)
    } else if (word.text === ';' || (word.text === '+' && open?.at(-1)?.text === '{}')) open = undefined
    else open?.push(word)
  }
  return commands
}
