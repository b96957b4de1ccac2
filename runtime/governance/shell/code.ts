import type { SimpleCommand } from './commands.ts'
import { nameOf } from './view.ts'
import type { Word } from './words.ts'

/** How programs in another language start commands. */
interface Language {
  /** Matches a text that starts any command. */
  readonly calls: RegExp
  /** Matches the text directly before a command. */
  readonly before: RegExp
}

/** The command is a string, or a list of strings, passed to a function. */
const STRINGS: RegExp = /["'`]/g

const SCRIPT: Language = {
  calls:
    /system|popen|subprocess|spawn|exec|child_process|passthru|shell-command|qx|`|\bsh\b|\brun\b|\$`|do shell script/,
  before: STRINGS,
}
const AWK: Language = { calls: /system\s*\(|\||getline/, before: STRINGS }
/** Editors, debuggers and build tools: the command is the rest of a line. */
const ESCAPE: Language = {
  calls: /[!:;=\t]|\b(?:shell|spawn|exec|system|e)\b/,
  before: /(?:[!:;=]|\b(?:shell(?:-command)?|spawn|exec|system|e)\b|^[ \t@-]*)[ \t@"'-]*/gm,
}
/** The command `e`, and the replacement of `s/…/…/e`. */
const SED: Language = {
  calls: /e/,
  before: /(?:^|[\s;{}\d$/])e[ \t]+|s([/|,#])(?:(?!\1).)*\1(?=(?:(?!\1).)*\1\w*e)/gm,
}

const SOCAT: Language = { calls: /(?:exec|system):/i, before: /(?:exec|system):"?/gi }
/** Database clients that pass a line to a shell. */
const CLIENT: Language = {
  calls: /\\!|system|shell/,
  before: /(?:\\!|\.(?:shell|system)\b|^[ \t]*system\b)[ \t]*/gm,
}

const LANGUAGES: readonly (readonly [RegExp, Language])[] = [
  [/^(?:python[\d.]*|node|nodejs|deno|bun|perl|ruby|php|lua|osascript|rscript|emacs|pwsh)$/, SCRIPT],
  [/^[gmn]?awk$/, AWK],
  [/^g?sed$/, SED],
  [/^socat$/, SOCAT],
  [/^(?:psql|mysql|mariadb|sqlite3|duckdb)$/, CLIENT],
  [/^(?:g?make|tar|bsdtar|vim?|nvim|ex|ed|gdb|lldb|expect|tclsh|less|man|rsync)$/, ESCAPE],
]

const languageOf = (name: string): Language | undefined => LANGUAGES.find(([names]) => names.test(name))?.[1]

/** Maximum number of strings per program that are judged as commands. */
const MAX_CANDIDATES = 64

/** Finds strings in a program's arguments and input that the program would run as commands. */
export function commandsInCode(words: readonly Word[], { documents, feed }: SimpleCommand): string[] {
  const language = languageOf(nameOf(words))
  if (!language) return []
  const input = feed?.kind === 'text' ? [feed.text] : []
  const texts = [...words.slice(1).map(({ text }) => text), ...documents, ...input]
  return texts.flatMap((text) => commandsIn(text, language)).slice(0, MAX_CANDIDATES)
}

/** Flags whose value is a command, by program. */
const COMMAND_FLAGS: readonly (readonly [RegExp, RegExp])[] = [
  [/^(?:bsd)?tar$/, /^(?:-I|-F|--use-compress-program|--to-command|--info-script|--new-volume-script)$/],
  [/^(?:split|sort|rg|rsync|man)$/, /^(?:--filter|--compress-program|--pre|-e|--rsh|-P|--pager)$/],
  [/^(?:ssh|scp|sftp)$/, /^-[oS]$/],
  [/^(?:nc|ncat|netcat)$/, /^(?:-\w*[ec]|--exec|--sh-exec)$/],
  [
    /^git$/,
    /^(?:-u|--upload-pack|--receive-pack|--exec|-x|--extcmd|-O|--open-files-in-pager|--sendmail-cmd|--to-cmd|--cc-cmd)$/,
  ],
  [/^(?:ack|ag|bat|fzf)$/, /^(?:--pager|--preview)$/],
  [/^go$/, /^--?exec$/],
  [/^zip$/, /^(?:-TT|--unzip-command)$/],
  [/^ansible$/, /^(?:-a|--args)$/],
  [/^(?:mapfile|readarray|compgen|complete|bind|fc)$/, /^-[Cxe]$/],
]

/** Returns the values of those flags: the next word, the text after `=`, or the rest of a short flag's word. */
export function commandsInFlags(words: readonly Word[]): string[] {
  const flags = COMMAND_FLAGS.find(([names]) => names.test(nameOf(words)))?.[1]
  if (!flags) return []
  return words.flatMap(({ text }, i) => {
    const isNext = flags.test(words[i - 1]?.text ?? '')
    if (/^-[A-Za-z]\S*\s/.test(text) && flags.test(text.slice(0, 2))) return withoutKey(text.slice(2))
    const isSame = text.includes('=') && flags.test(text.split('=', 1)[0] ?? '')
    return isNext || isSame ? withoutKey(text) : []
  })
}

const withoutKey = (text: string): string => text.replace(/^(?:[\w-]+=|"[^"]*":)/, '')

/** Finds strings in a source file that would run as commands. The file name selects the language. */
export const commandsInFile = (name: string, text: string): string[] => {
  const language = languageOf(name)
  return language ? commandsIn(text, language).slice(0, MAX_CANDIDATES) : []
}

function commandsIn(text: string, { calls, before }: Language): string[] {
  if (!calls.test(text)) return []
  // A list of words is also a command: ["rm", "-rf", x].
  const flat = text.replace(/(["'])\s*,\s*\[?\s*(["'])/g, ' ')
  if (!/\s/.test(flat)) return []
  return [...flat.matchAll(before)].map((match) => {
    const start = match.index + match[0].length
    const quote = /["'`]\s*$/.exec(match[0])?.[0]
    const end = quote === undefined ? flat.indexOf('\n', start) : flat.indexOf(quote.trim(), start)
    return flat.slice(start, end < 0 ? undefined : end).replace(/^([^(]*)\)+\s*$/, '$1')
  })
}
