import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'

const FOLDER = resolve(import.meta.dirname, '../../.github/workflows')
const Permissions = z.record(z.string(), z.enum(['read', 'write', 'none']))
const Step = z.looseObject({
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).default({}),
  env: z.record(z.string(), z.unknown()).default({}),
})
const Job = z.looseObject({
  if: z.string().optional(),
  permissions: Permissions,
  environment: z.string().optional(),
  env: z.record(z.string(), z.unknown()).default({}),
  'runs-on': z.string(),
  'timeout-minutes': z.number(),
  steps: z.array(Step).min(1),
})
/** The parts of a GitHub Actions workflow that the rules check. A job without explicit permissions is rejected. */
export const Workflow = z.looseObject({
  name: z.string(),
  on: z.record(z.string(), z.unknown()),
  permissions: z.strictObject({}),
  concurrency: z.looseObject({ group: z.string(), 'cancel-in-progress': z.boolean() }),
  jobs: z.record(z.string(), Job),
})
export type Workflow = z.infer<typeof Workflow>

export const WORKFLOWS = readdirSync(FOLDER).sort()
export const workflowText = (file: string) => readFileSync(join(FOLDER, file), 'utf8')
export const parseWorkflow = (text: string): Workflow => Workflow.parse(parse(text))

const PINNED = /^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/
/** Expressions with values that the author of a pull request or the name of a branch controls. */
const TAINTED = /github\.(?:head_ref|event|ref_name|actor)|inputs\.|needs\.|steps\.|matrix\./
const SAME_REPOSITORY = 'github.event.pull_request.head.repo.full_name == github.repository'
const EXPRESSION = /\$\{\{/

type Job = Workflow['jobs'][string]

/** All security faults of a workflow, by job. */
export function workflowFaults(text: string): string[] {
  const workflow = parseWorkflow(text)
  const faults: string[] = []
  if ('pull_request_target' in workflow.on) faults.push('runs with the rights of main for pull requests')
  if ('workflow_run' in workflow.on) faults.push('runs with the rights of main after pull requests')
  if (/\$\{\{\s*secrets\./.test(text)) faults.push('uses a secret')
  // GitHub keeps only the newest waiting run of a group. If a pull request could choose the group, its run could
  // replace another run.
  if (/head_ref|\.title|\.label/.test(workflow.concurrency.group)) faults.push('anybody chooses its group')
  for (const [line] of text.matchAll(/uses: .*/g))
    if (!/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line)) faults.push(`${line} has no version beside its commit`)
  for (const [name, job] of Object.entries(workflow.jobs))
    faults.push(...jobFaults(job, workflow).map((fault) => `${name}: ${fault}`))
  return faults
}

interface Seen {
  readonly job: Job
  readonly isPullRequest: boolean
  readonly canLogIn: boolean
  /** May change something of the repository, or of a pull request. */
  readonly writes: boolean
  readonly condition: string
  readonly isAfterAnother: boolean
}

/** Faults of a whole job. */
const JOB_RULES: readonly (readonly [fault: string, is: (seen: Seen) => boolean])[] = [
  [
    'a fork gets a token of Azure',
    ({ canLogIn, isPullRequest, condition }) =>
      canLogIn && isPullRequest && !condition.includes(SAME_REPOSITORY),
  ],
  [
    'logs in without an environment that guards it',
    ({ canLogIn, job }) => canLogIn && job.environment === undefined,
  ],
  [
    'logs in from any branch',
    ({ canLogIn, isPullRequest, condition, isAfterAnother }) =>
      canLogIn && !isPullRequest && !condition.includes("'refs/heads/main'") && !isAfterAnother,
  ],
  [
    'writes for a fork',
    ({ writes, isPullRequest, condition, isAfterAnother }) =>
      writes && isPullRequest && !condition.includes(SAME_REPOSITORY) && !isAfterAnother,
  ],
  [
    'runs the program without kubelogin',
    ({ canLogIn, job }) => canLogIn && firstRun(job, PROGRAM) < firstRun(job, /az aks install-cli/),
  ],
  [
    'runs the program where no repository variable chooses',
    ({ canLogIn, job }) => canLogIn && isProgram(job) && !RUNNER.test(job['runs-on']),
  ],
  [
    // A self-hosted runner keeps the files of a job, and has access to a network.
    'runs on a machine of ours without need',
    ({ canLogIn, job }) => job['runs-on'] !== HOSTED && !(canLogIn && isProgram(job)),
  ],
  [
    'logs in to the cluster with an assertion that dies before the cluster is there',
    ({ canLogIn, job }) =>
      canLogIn &&
      ((firstRun(job, PROGRAM) < job.steps.length && !LOGIN.every((name) => name in job.env)) ||
        job.steps.some(({ run = '' }) => /kubelogin\b.*--login (?!workloadidentity\b)/.test(run)) ||
        (job.env['AAD_LOGIN_METHOD'] ?? 'workloadidentity') !== 'workloadidentity'),
  ],
  [
    'writes while it runs code of the pull request',
    ({ writes, isPullRequest, job }) => writes && isPullRequest && runsHead(job),
  ],
]

/** kubelogin uses these variables to exchange a GitHub token, which it requests itself. */
const LOGIN = ['AAD_LOGIN_METHOD', 'AZURE_CLIENT_ID', 'AZURE_TENANT_ID']

/** Commands that start the program, which logs in to the cluster with kubelogin. */
const PROGRAM = /\bpulumi (?:up|preview|refresh)|npm run up |preview-stack (?:up|down|sweep)|tools\/drift/
/**
 * Runners must come from variables of the repository: GitHub resolves variables of an environment only after it has
 * chosen the runner.
 */
const HOSTED = 'ubuntu-24.04'
const RUNNER = /^\$\{\{ .*\bvars\.RUNNER_(?:DEV|PROD) \|\| 'ubuntu-24\.04' \}\}$/
const isProgram = (job: Job) => firstRun(job, PROGRAM) < job.steps.length
/** Where a job first runs that; behind its end if it never does. */
function firstRun({ steps }: Job, what: RegExp): number {
  const at = steps.findIndex(({ run = '' }) => what.test(run))
  return at === -1 ? steps.length : at
}
const isCheckout = ({ uses = '' }: StepOf) => uses.startsWith('actions/checkout@')
const runsHead = ({ steps }: Job) => steps.some((step) => isCheckout(step) && step.with['ref'] === undefined)

function jobFaults(job: Job, workflow: Workflow): string[] {
  const seen: Seen = {
    job,
    isPullRequest: 'pull_request' in workflow.on,
    canLogIn: job.permissions['id-token'] === 'write',
    writes: Object.entries(job.permissions).some(([what, level]) => level === 'write' && what !== 'id-token'),
    condition: job.if ?? '',
    isAfterAnother: 'needs' in job,
  }
  const own = JOB_RULES.filter(([, is]) => is(seen)).map(([fault]) => fault)
  return [
    ...job.steps.flatMap((step) => STEP_RULES.filter(([, is]) => is(step, job)).map(([fault]) => fault)),
    ...own,
  ]
}

type StepOf = z.infer<typeof Step>
const LOADS = /^(?:PATH|NODE_OPTIONS|LD_PRELOAD|BASH_ENV)$/
const isForeign = (ref: string) => TAINTED.test(ref) && !/pull_request\.base\.sha/.test(ref)

/** Faults of a single step. */
const STEP_RULES: readonly (readonly [fault: string, is: (step: StepOf, job: Job) => boolean])[] = [
  ['an action is not pinned by commit', ({ uses }) => uses !== undefined && !PINNED.test(uses)],
  ['an expression is put into a script', ({ run = '' }) => EXPRESSION.test(run)],
  [
    'the checkout leaves its token behind',
    (step, job) =>
      isCheckout(step) &&
      job.permissions['contents'] !== 'write' &&
      step.with['persist-credentials'] !== false,
  ],
  [
    'checks out what somebody else chooses',
    (step) => isCheckout(step) && isForeign(String(step.with['ref'] ?? '')),
  ],
  ['evaluates text', ({ run = '' }) => /(?:^|\s)eval\s/.test(run)],
  ['sets what programs load', ({ env }) => Object.keys(env).some((name) => LOADS.test(name))],
]
