import type { Proof } from './cli/proof.ts'

export const PROOF_PAGE = 'docs/infra-proof.md'

/** Parts of the page, in reading order. */
export const PARTS = [
  'Before the stack',
  'A new stack',
  'A stack that is there',
  'What is protected',
  'Layers',
  'Previews',
  'Destroy',
  'After a failure',
] as const

interface LastRun {
  readonly cli: string
  readonly date: string
  readonly proofs: readonly Proof[]
}

/** The results of the last complete run as a page. */
export function proofPage({ cli, date, proofs }: LastRun): string {
  const unknown = proofs.filter(({ part }) => !PARTS.some((known) => known === part))
  if (unknown.length > 0) throw new Error(`the page has no part ${unknown[0]?.part}`)
  const parts = PARTS.map((part) => {
    const rows = proofs
      .filter((one) => one.part === part)
      .map(({ command, status, outcome }) => `| \`${command}\` | ${status} | ${outcome} |`)
    return [`## ${part}`, '', '| command | exit | result |', '| --- | --- | --- |', ...rows].join('\n')
  })
  return `${[HEAD, facts(cli, date), ...parts, TAIL].join('\n\n')}\n`
}

const HEAD = `# What was run with the real Pulumi CLI

Written by \`npm run test:pulumi -- --record\`, not by hand. It runs the documented commands on a copy of the repository, with a
\`file://\` backend, a passphrase and the two [stand-ins of the providers](infra.md#under-the-real-engine), attached by
\`PULUMI_DEBUG_PROVIDERS\`.`

const facts = (cli: string, date: string) =>
  ['| | |', '| --- | --- |', `| Pulumi CLI | ${cli.replace(/^v/, '')} |`, `| date | ${date} |`].join('\n')

const TAIL = `## What this does not show

The providers are stand-ins: what Azure and a cluster answer is written down from their documents. No command here has reached
Azure. Not run at all: \`npm run state\` (it calls \`az\`), \`agentweaver verify\` (it needs a cluster), and the workflows.`
