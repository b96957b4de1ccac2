import { once } from 'node:events'
import { Command } from 'commander'
import * as z from 'zod'
import { AUDIT_LIMITS, AuditChain, type AuditEntry, type AuditVerification } from '../../contracts/audit.ts'
import { toJsonLine } from '../../runtime/audit/json-lines.ts'
import { OCSF_VERSION, toOcsf } from '../../runtime/audit/ocsf.ts'
import { entryTable, verificationLines } from '../audit/audit-lines.ts'
import { type Audit, type AuditSearch, auditOfCopy, auditOfService } from '../audit/open-audit.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const SourceOptions = ServiceOptions.extend({ store: z.string().optional() })
type SourceOptions = z.infer<typeof SourceOptions>

const When = z
  .string()
  .refine((text) => !Number.isNaN(Date.parse(text)), 'must be a date or a time of ISO 8601')
  .transform((text) => new Date(text).toISOString())
const FilterOptions = SourceOptions.extend({
  tool: z.string().max(256).optional(),
  decision: z.string().max(64).optional(),
  since: When.optional(),
  until: When.optional(),
})

const STORE_OPTION = [
  '--store <file>',
  'read a copied SQLite store (store.db) in place of a service; it is not changed',
] as const

const newAuditCommand = (spec: Parameters<typeof newServiceCommand>[0]): Command =>
  newServiceCommand(spec).option(...STORE_OPTION)

const addFilters = (command: Command): Command =>
  command
    .option('--tool <name>', 'records of this tool')
    .option('--decision <word>', 'records with this decision: allow, ask, deny, approved, denied, …')
    .option('--since <time>', 'from this time on')
    .option('--until <time>', 'before this time')

export function auditCommand(context: CliContext): Command {
  return new Command('audit')
    .description('Read, verify and export the audit: the record of what agents and people did')
    .addCommand(showAuditCommand(context))
    .addCommand(verifyAuditCommand(context))
    .addCommand(exportAuditCommand(context))
}

async function openAudit(
  context: CliContext,
  options: SourceOptions & { readonly key?: readonly string[] | undefined },
): Promise<Audit> {
  const { store, url, key: keys = [] } = options
  if (store === undefined) {
    const connection = await openConnection(context, options, { whenAbsent: 'open' })
    return auditOfService(connection.client, () => connection[Symbol.asyncDispose]())
  }
  if (url !== undefined) throw usageError('--store and --url exclude each other.')
  return auditOfCopy({ store, keys, cwd: context.terminal.io.cwd })
}

function requireChain(run: string | undefined): string | undefined {
  if (run === undefined || AuditChain.safeParse(run).success) return run
  throw usageError(
    'This is not an id: a run id is run_ and 32 hexadecimal digits, a sandbox id is sbx_ and the same.',
    'Records that belong to no run are in the chain "deployment".',
  )
}

type Filter = Pick<z.infer<typeof FilterOptions>, 'tool' | 'decision' | 'since' | 'until'>
const searchOf = ({ tool, decision, since, until }: Filter): AuditSearch =>
  Object.fromEntries(
    Object.entries({ tool, decision, since, until }).filter(([, value]) => value !== undefined),
  )

function showAuditCommand(context: CliContext): Command {
  const Options = FilterOptions.extend({
    limit: z.coerce.number().int().min(1).max(AUDIT_LIMITS.maxPage).default(AUDIT_LIMITS.defaultPage),
    after: z.string().optional(),
  })
  const command = addFilters(
    newAuditCommand({
      usage: 'show',
      about:
        'Show the audit records of a run or a sandbox, oldest first. "deployment" shows the records that belong to no run.',
      example:
        'agentweaver audit show run_0197f6f2…\nagentweaver audit show deployment --store copy/store.db',
    }),
  )
    .argument('<run>', 'id of the run, or "deployment"')
    .option('--limit <n>', `how many (1 to ${AUDIT_LIMITS.maxPage})`, String(AUDIT_LIMITS.defaultPage))
    .option('--after <token>', 'the next page, as the page before named it')
  command.action(async (run: string) => {
    const options = parseOptions(Options, command)
    const { limit, after } = options
    requireChain(run)
    await using audit = await openAudit(context, options)
    const page = await audit.read({ ...searchOf(options), run, limit, ...(after !== undefined && { after }) })
    if (options.json) context.terminal.json(page)
    else {
      context.terminal.print(entryTable(page.items, context))
      if (page.next) context.terminal.note(`More: add --after ${page.next}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

function verifyAuditCommand(context: CliContext): Command {
  const Options = SourceOptions.extend({ key: z.array(z.string()).optional() })
  const command = newAuditCommand({
    usage: 'verify',
    about:
      "Verify the audit: every record, every run against its seal in the deployment's chain, and that chain. A service verifies with its own key; a copied store needs --key.",
    example:
      'agentweaver audit verify\nagentweaver audit verify --store copy/store.db --key copy/keys/deployment.key',
  })
    .argument('[run]', 'only this run, and the chain of the deployment')
    .option('--key <file>', 'the deployment key, with --store; again for a key before it', collect)
    .addHelpText('after', '\nExit status: 0 the audit is intact, 1 it is not.')
  command.action(async (run: string | undefined) => {
    const options = parseOptions(Options, command)
    const { store, key } = options
    if ((store === undefined) !== (key === undefined))
      throw usageError('--store and --key go together: a service verifies with its own key.')
    requireChain(run)
    await using audit = await openAudit(context, options)
    const report = await lastReport(context, audit.verify(run))
    if (options.json) context.terminal.json(report)
    else context.terminal.print(verificationLines(report, context))
    context.exit(report.ok ? EXIT.ok : EXIT.runFailed)
  })
  return command
}

const collect = (file: string, before: readonly string[] = []): string[] => [...before, file]

async function lastReport(
  { terminal }: CliContext,
  reports: AsyncIterable<AuditVerification>,
): Promise<AuditVerification> {
  for await (const report of reports) {
    if (report.isComplete) return report
    terminal.progress.waitFor(`verifying: ${report.records} records`)
  }
  throw new CliError('The verification broke off before its end.', {
    status: EXIT.unreachable,
    hint: 'Is the service still running? Try again.',
  })
}

const FORMATS = { jsonl: (entry: AuditEntry) => JSON.parse(toJsonLine(entry)), ocsf: toOcsf } as const

function exportAuditCommand(context: CliContext): Command {
  const Options = FilterOptions.extend({
    format: z.enum(['jsonl', 'ocsf']),
    run: z.string().optional(),
  })
  const command = addFilters(
    newAuditCommand({
      usage: 'export',
      about: `Export audit records, oldest first, as JSON Lines: each record with its MAC (jsonl), or as API Activity of the Open Cybersecurity Schema Framework ${OCSF_VERSION} (ocsf).`,
      example: 'agentweaver audit export --format ocsf --since 2026-01-01 > audit.ocsf.jsonl',
    }),
  )
    .requiredOption('--format <format>', 'jsonl or ocsf')
    .option('--run <id>', 'only this run, or "deployment"')
  command.action(async () => {
    const options = parseOptions(Options, command)
    const run = requireChain(options.run)
    await using audit = await openAudit(context, options)
    const search = { ...searchOf(options), ...(run !== undefined && { run }), limit: AUDIT_LIMITS.maxPage }
    for await (const entry of allOf(audit, search, context)) {
      context.terminal.json(FORMATS[options.format](entry))
    }
    context.exit(EXIT.ok)
  })
  return command
}

async function* allOf(
  audit: Audit,
  search: AuditSearch,
  { terminal }: CliContext,
): AsyncGenerator<AuditEntry> {
  const { stdout } = terminal.io
  for (let after: string | undefined; ; ) {
    const { items, next } = await audit.read({ ...search, ...(after !== undefined && { after }) })
    yield* items
    if (next === undefined) return
    // Backpressure: without it, a slow reader would let the records pile up in memory.
    if (stdout.writableNeedDrain) await once(stdout, 'drain')
    after = next
  }
}
