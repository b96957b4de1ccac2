import type { CloneLine } from '../../../../contracts/git-source.ts'

type Failed = Extract<CloneLine, { type: 'failed' }>

const CREDENTIAL =
  'Check that the repository exists, and that the credential of its entry in the egress list may read it (docs/placeholders.md).'

/** Sentences of git, and what a person can do about them. The first that matches counts. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  // The sentence of the egress proxy has its own remedy.
  [/refused: |agentweaver: /i, ''],
  [
    /returned error: 40[134]|not found|Authentication failed|could not read Username|Repository not found/i,
    CREDENTIAL,
  ],
  [
    /server certificate|certificate problem|SSL/i,
    'Check the certificate of the server, and AGENTWEAVER_EGRESS_ROOTS_FILE (docs/egress.md).',
  ],
  [
    /missing blob|fsck|error in (?:object|tag|commit|tree|blob)/i,
    'The repository has damaged or dangerous objects. Run git fsck on it.',
  ],
  [
    /Could not resolve|unable to access|timed out|early EOF|hung up|RPC failed|low speed/i,
    'The server could not be reached, or ended the connection. Start the run again.',
  ],
]

/** What failed, with git's reason and what to do. */
export function cloneFailure(url: string, { reason, message }: Failed): string {
  return [`The repository ${url} could not be cloned: ${sentence(message)}`, remedyOf(reason, message)]
    .filter((part) => part !== '')
    .join(' ')
}

function remedyOf(reason: Failed['reason'], message: string): string {
  switch (reason) {
    case 'no-ref':
      return 'Start the run with --ref and the name of a branch, a tag, or a full commit id of the repository.'
    case 'timeout':
      return 'Start the run with less history: --depth 1.'
    case 'too-large':
      return 'Start the run with less history (--depth 1), or upload the files that it needs.'
    case 'link':
      return 'Start the run on a ref without it, or upload the files.'
    case 'no-git':
      return 'Install git where the sandboxes run.'
    default:
      return (
        REMEDIES.find(([pattern]) => pattern.test(message))?.[1] ??
        'Start the run again. If it fails again, try git clone on your machine.'
      )
  }
}

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)
