import type { ConfigEntry } from './configuration.ts'

export type ObjectFormat = 'sha1' | 'sha256'

/**
 * The parts of the user's configuration that a private git directory keeps: plain facts, nothing that names a
 * program.
 */
export type CleanConfig =
  | { readonly ok: true; readonly format: ObjectFormat; readonly text: string }
  | { readonly ok: false; readonly reason: string }

/** Repository settings: how its files are to be read. */
const CORE_FLAGS = [
  'filemode',
  'ignorecase',
  'precomposeunicode',
  'symlinks',
  'sparsecheckout',
  'sparsecheckoutcone',
]
/** How line ends are stored. Read from the repository and from the user's own configuration. */
const LINE_ENDS = ['autocrlf', 'eol', 'safecrlf'] as const
const WORD = /^[a-z]{1,16}$/i
const NAME = /^[\w./+-]{1,200}$/
/** Extensions that do not affect how the repository is read. */
const HARMLESS_EXTENSIONS = ['noop', 'preciousobjects', 'worktreeconfig', 'relativeworktrees'].map(
  (name) => `extensions.${name}`,
)

export function cleanConfig(entries: readonly ConfigEntry[]): CleanConfig {
  const own = entries.filter(({ scope }) => scope === 'local' || scope === 'worktree')
  const format = objectFormatOf(own)
  if ('reason' in format) return { ok: false, reason: format.reason }
  const isSha256 = format.name === 'sha256'
  const flags = CORE_FLAGS.flatMap((name) => settingOf(own, `core.${name}`))
  const lineEnds = LINE_ENDS.flatMap((name) => settingOf(entries, `core.${name}`))
  const text = [
    section('core', [
      ['repositoryformatversion', isSha256 ? '1' : '0'],
      ['bare', 'false'],
      // Owners differ inside the sandbox and inodes differ in a copy. Neither must make a file look changed.
      ['checkstat', 'minimal'],
      ['trustctime', 'false'],
      ...[...flags, ...lineEnds].filter(([, value]) => WORD.test(value)),
    ]),
    section('gc', [['auto', '0']]),
    section('maintenance', [['auto', 'false']]),
    ...(isSha256 ? [section('extensions', [['objectformat', 'sha256']])] : []),
    section(
      'user',
      (['name', 'email'] as const).flatMap((name) =>
        settingOf(entries, `user.${name}`).filter(([, value]) => isPlain(value)),
      ),
    ),
    ...remotesOf(own),
    ...branchesOf(own),
  ].join('')
  return { ok: true, format: format.name, text }
}

function objectFormatOf(own: readonly ConfigEntry[]): { name: ObjectFormat } | { reason: string } {
  const version = lastOf(own, 'core.repositoryformatversion') ?? '0'
  if (version !== '0' && version !== '1')
    return { reason: `its repository format ${version} is not supported` }
  if (lastOf(own, 'extensions.partialclone') !== undefined || own.some(isPromisor)) return { reason: PARTIAL }
  const unknown = own.find(({ key, value }) => key.startsWith('extensions.') && !isKnownExtension(key, value))
  if (unknown) return { reason: `its ${unknown.key}=${unknown.value} is not supported` }
  return { name: lastOf(own, 'extensions.objectformat') === 'sha256' ? 'sha256' : 'sha1' }
}

const PARTIAL =
  'it is a partial clone, so its missing objects are only on the remote. Clone it without --filter'

const isKnownExtension = (key: string, value: string) =>
  HARMLESS_EXTENSIONS.includes(key) ||
  (key === 'extensions.refstorage' && value === 'files') ||
  (key === 'extensions.objectformat' && (value === 'sha1' || value === 'sha256'))

const isPromisor = ({ key, value }: ConfigEntry) => /^remote\..+\.promisor$/s.test(key) && value !== 'false'

const lastOf = (entries: readonly ConfigEntry[], key: string): string | undefined =>
  entries.findLast((entry) => entry.key === key)?.value

type Setting = readonly [name: string, value: string]

const settingOf = (entries: readonly ConfigEntry[], key: string): Setting[] => {
  const value = lastOf(entries, key)
  return value === undefined ? [] : [[key.slice(key.indexOf('.') + 1), value]]
}

const section = (name: string, settings: readonly Setting[]): string =>
  settings.length === 0
    ? ''
    : `[${name}]\n${settings.map(([key, value]) => `\t${key} = ${quoted(value)}\n`).join('')}`

const quoted = (value: string) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** Text without control characters, which could start a new line in a configuration file. */
const isPlain = (value: string) => value.length <= 1000 && !/\p{Cc}/u.test(value)

/** The remotes, with URLs stripped of user, password and token. */
function remotesOf(own: readonly ConfigEntry[]): string[] {
  return own.flatMap(({ key, value }) => {
    const name = /^remote\.(.+)\.url$/s.exec(key)?.[1]
    const url = cleanUrl(value)
    if (name === undefined || !NAME.test(name) || url === undefined) return []
    return [
      section(`remote "${name}"`, [
        ['url', url],
        ['fetch', `+refs/heads/*:refs/remotes/${name}/*`],
      ]),
    ]
  })
}

/** Removes credentials from a URL. Returns undefined if the URL could name a program. */
export function cleanUrl(value: string): string | undefined {
  if (!isPlain(value)) return undefined
  const short = /^(?:[^@/:\s]+@)?([\w.-]+):(?!\/\/|:)([^\s?#]+)$/.exec(value)
  if (short) return `${short[1]}:${short[2]}`
  const url = URL.parse(value)
  if (!url || !['https:', 'http:', 'ssh:', 'git:'].includes(url.protocol)) return undefined
  return `${url.protocol}//${url.host}${url.pathname}`
}

function branchesOf(own: readonly ConfigEntry[]): string[] {
  return own.flatMap(({ key, value }) => {
    const [, name, variable] = /^branch\.(.+)\.(remote|merge)$/s.exec(key) ?? []
    if (name === undefined || variable === undefined || !NAME.test(name) || !NAME.test(value)) return []
    return [section(`branch "${name}"`, [[variable, value]])]
  })
}
