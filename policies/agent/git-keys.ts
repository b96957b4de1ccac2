/**
 * Keys of git's configuration whose values are paths or commands. Git prints sections and variables in lower case; `*`
 * stands for a part between dots. The value of a key that is in none of these lists is checked too, for names of
 * existing files.
 */
export const GIT_KEYS = {
  /** The value is a file that git reads. */
  files: [
    'include.path',
    'includeif.*.path',
    'core.attributesfile',
    'core.excludesfile',
    'commit.template',
    'gpg.ssh.allowedsignersfile',
    'gpg.ssh.revocationfile',
    'blame.ignorerevsfile',
    'mailmap.file',
  ],
  /** The value is a folder with programs or files in it. */
  folders: ['core.hookspath', 'init.templatedir'],
  /** The value is a command line, or names a program. */
  commands: [
    'alias.*',
    'core.fsmonitor',
    'core.sshcommand',
    'core.gitproxy',
    'core.editor',
    'core.pager',
    'core.askpass',
    'core.alternaterefscommand',
    'sequence.editor',
    'interactive.difffilter',
    'pager.*',
    'gpg.program',
    'gpg.*.program',
    'gpg.ssh.defaultkeycommand',
    'diff.external',
    'diff.*.command',
    'diff.*.textconv',
    'filter.*.clean',
    'filter.*.smudge',
    'filter.*.process',
    'merge.*.driver',
    'difftool.*.cmd',
    'difftool.*.path',
    'mergetool.*.cmd',
    'mergetool.*.path',
    'guitool.*.cmd',
    'browser.*.cmd',
    'browser.*.path',
    'man.*.cmd',
    'man.*.path',
    'credential.helper',
    'credential.*.helper',
    'trailer.*.command',
    'trailer.*.cmd',
    'remote.*.uploadpack',
    'remote.*.receivepack',
    'remote.*.vcs',
    'submodule.*.update',
    'uploadpack.packobjectshook',
    'sendemail.*',
    'tar.*.command',
  ],
  /** The value is text that git never opens. */
  texts: [
    'user.*',
    'author.*',
    'committer.*',
    'branch.*',
    'remote.*.url',
    'remote.*.pushurl',
    'remote.*.fetch',
    'remote.*.push',
    'submodule.*.url',
    'submodule.*.path',
    'submodule.*.branch',
    'submodule.*.active',
    'color.*',
    'format.*',
    'init.defaultbranch',
    'safe.directory',
  ],
} as const

export type GitKeyKind = keyof typeof GIT_KEYS

const patterns = Object.entries(GIT_KEYS).map(
  ([kind, keys]) => [kind as GitKeyKind, keys.map(toPattern)] as const,
)

/** Returns the kind of value that a key has, or undefined if no list contains the key. */
export const kindOfGitKey = (key: string): GitKeyKind | undefined =>
  patterns.find(([, known]) => known.some((pattern) => pattern.test(key)))?.[0]

/** A git subsection may contain dots. */
function toPattern(key: string): RegExp {
  const parts = key.split('*').map((part) => part.replaceAll('.', '\\.'))
  return new RegExp(`^${parts.join('.+')}$`, 's')
}
