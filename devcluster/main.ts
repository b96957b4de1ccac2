import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { IMAGE_NAMES } from '../images/contents.ts'
import { ensureTools } from './build/ensure-tools.ts'
import { MODULE_NAMES } from './build/modules.ts'
import {
  type ClusterOptions,
  completeOptions,
  IDENTITY_TIMINGS,
  type IdentityTiming,
} from './cluster-options.ts'
import { chooseCluster, findClusters } from './commands/choose-cluster.ts'
import { takeDown } from './commands/down.ts'
import { logNames, readLog, runWithCluster } from './commands/logs-and-exec.ts'
import { formatStatus, statusOf } from './commands/status.ts'
import { type ClusterSummary, holdCluster, keepCluster } from './commands/up.ts'
import { HarnessError } from './harness-error.ts'

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Progress goes to stderr, so `--json` and pipes receive only results. */
function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('a whole number is needed')
  return Number(text)
}

const clusterOption = () =>
  new Option('--cluster <number>', 'which cluster, when several run').argParser(wholeNumber)

interface UpFlags {
  readonly node?: boolean
  readonly nodes?: number
  readonly gvisor?: boolean
  readonly cilium?: true | IdentityTiming
  readonly kwok?: number
  readonly service?: boolean
  readonly images?: string
  readonly keep?: boolean
  readonly json?: boolean
}

async function up({ images, keep, json, ...flags }: UpFlags): Promise<void> {
  const { service = false } = flags
  if (images !== undefined) requireArchives(images, service)
  const options = {
    cluster: clusterOf(flags),
    service,
    ...(images !== undefined && { images: resolve(images) }),
  }
  const tell = (summary: ClusterSummary) =>
    print(json ? JSON.stringify(summary) : describe(summary, keep ?? false))
  if (keep) tell(await keepCluster(options, say))
  else await holdCluster(options, say, tell)
}

function clusterOf({ node, nodes, gvisor, cilium, kwok, service = false }: UpFlags): ClusterOptions {
  return completeOptions({
    nodes: nodes ?? (node ? 1 : 0),
    gvisor: gvisor ?? service,
    cilium: cilium === true || (service && cilium === undefined) ? 'instant' : (cilium ?? false),
    kwokNodes: kwok ?? 0,
  })
}

/** Checks first, because the cluster takes half a minute to start. */
function requireArchives(folder: string, service: boolean): void {
  if (!service) throw new HarnessError('--images needs --service: only the product uses these images')
  const missing = IMAGE_NAMES.map((name) => join(folder, `${name}.tar`)).filter((path) => !existsSync(path))
  if (missing.length > 0)
    throw new HarnessError(
      `--images: no such file: ${missing.join(', ')}. Build them as docs/local-cluster.md describes`,
    )
}

function describe({ slot, kubeconfig, steps, service }: ClusterSummary, keep: boolean): string {
  const seconds = ((steps['ready'] ?? 0) / 1000).toFixed(1)
  const end = keep ? '`npm run cluster -- down` takes it down' : 'Ctrl-C takes it down'
  const lines = [`cluster ${slot} is ready after ${seconds} s; ${end}`, `export KUBECONFIG=${kubeconfig}`]
  if (service) {
    const { url, apiKey, apiKeyFile } = service
    lines.push(
      `API: ${url}`,
      `API key: ${apiKey}`,
      `Log in with: npm run agentweaver -- login --url ${url} < ${apiKeyFile}`,
    )
  }
  return lines.join('\n')
}

async function down({ cluster, all }: { cluster?: number; all?: boolean }): Promise<void> {
  const chosen = all ? findClusters() : [chooseCluster(cluster)]
  for (const found of chosen) {
    await takeDown(found)
    print(`cluster ${found.slot} is down`)
  }
}

async function status({ json }: { json?: boolean }): Promise<void> {
  const statuses = await Promise.all(findClusters().map(statusOf))
  if (json) print(JSON.stringify(statuses, null, 1))
  else print(statuses.length > 0 ? statuses.map(formatStatus).join('\n\n') : 'no cluster is running')
}

const program = new Command('cluster')
  .description('A real Kubernetes on this machine, without a container engine.')
  .enablePositionalOptions()
program
  .command('up')
  .description('bring a cluster up and hold it until Ctrl-C')
  .option('--node', 'one real node: containerd, a kubelet, pods in real containers')
  .option('--nodes <count>', 'several real nodes', wholeNumber)
  .option('--gvisor', 'gVisor as the runtime class `gvisor`; brings a node')
  .addOption(
    new Option(
      '--cilium [timing]',
      'Cilium as network and policy engine; `default` acts on changed labels as late as a real cluster does',
    ).choices(IDENTITY_TIMINGS),
  )
  .option('--kwok <count>', 'fake nodes, whose pods are ready at once', wholeNumber)
  .option('--service', 'the product itself, with a database and keys of its own; brings gVisor and Cilium')
  .option('--images <folder>', 'with --service: images built from images/*.Containerfile, as archives')
  .option('--keep', 'return when it is ready, and leave it running')
  .option('--json', 'print the result as JSON')
  .action(up)
program
  .command('down')
  .description('take a cluster down and remove everything of it')
  .addOption(clusterOption())
  .option('--all', 'every cluster of this user')
  .action(down)
program
  .command('status')
  .description('every process with its memory and health')
  .option('--json', 'as JSON')
  .action(status)
program
  .command('kubeconfig')
  .description("print the path of a cluster's kubeconfig")
  .addOption(clusterOption())
  .action(({ cluster }: { cluster?: number }) => {
    print(`${chooseCluster(cluster).folder}/kubeconfig`)
  })
program
  .command('logs [name]')
  .description('the end of a log, or the names of all logs')
  .addOption(clusterOption())
  .option('--lines <count>', 'how many lines', wholeNumber, 50)
  .action((name: string | undefined, { cluster, lines }: { cluster?: number; lines: number }) => {
    const found = chooseCluster(cluster)
    print(name ? readLog(found, name, lines) : logNames(found).join('\n'))
  })
program
  .command('exec <command...>')
  .description('run a command with KUBECONFIG set and kubectl in PATH')
  .passThroughOptions()
  .addOption(clusterOption())
  .option('--in-node <name>', 'inside the namespaces of a node')
  .action((command: string[], { cluster, inNode }: { cluster?: number; inNode?: string }) => {
    process.exitCode = runWithCluster(chooseCluster(cluster), command, inNode)
  })
program
  .command('build')
  .description('build the programs of every option, so that a later `up` starts at once')
  .action(async () => {
    await ensureTools(MODULE_NAMES, say)
  })

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof HarnessError)) throw error
  say(error.message)
  process.exitCode = 1
}
