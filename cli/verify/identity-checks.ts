import * as z from 'zod'
import { names } from '../../contracts/names.ts'
import {
  BUILT_IN_ROLES,
  SECRET_GETTER,
  SECRET_WRITER,
  secretGetter,
  secretWriter,
} from '../../infra/model/roles.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import type { Check, CheckInputs } from './check.ts'
import { NotRun, verdict } from './outcome.ts'

/** Permissions that an attacker with a sandbox's token would want. */
const WISHES = [
  ['get', 'secrets'],
  ['list', 'secrets'],
  ['create', 'pods'],
  ['create', 'pods/exec'],
  ['create', 'serviceaccounts/token'],
  ['get', 'configmaps'],
  ['create', 'sandboxclaims.extensions.agents.x-k8s.io'],
  ['list', 'nodes'],
  ['*', '*'],
] as const

const CAN_MS = 20_000

async function can(inputs: CheckInputs, wish: readonly string[], as?: string): Promise<boolean> {
  const { sandboxes } = names(inputs.environment.slice).namespaces
  const { status, stdout, stderr } = await inputs.call({
    program: 'kubectl',
    args: ['auth', 'can-i', ...wish, '-n', sandboxes, ...(as === undefined ? [] : ['--as', as])],
    timeoutMs: CAN_MS,
  })
  const answer = stdout.trim().split('\n').at(-1) ?? ''
  if (answer === 'yes') return true
  // kubectl prints "no" with status 1. A failed request has status 1 too, so the text is checked.
  if (status === 1 && /^no\b/.test(answer)) return false
  throw new NotRun(`the API server gave no usable response: ${stderr.trim().split('\n').at(-1) ?? answer}`)
}

/** The service accounts of sandboxes have no permissions at the API server. */
export const accounts: Check = {
  id: 'accounts',
  shows: 'the service accounts of sandboxes may do nothing at the API server',
  async run(inputs) {
    if (!(await can(inputs, ['get', 'secrets'])))
      throw new NotRun('you may not read secrets there yourself, so a "no" would prove nothing')
    const { namespaces, serviceAccounts } = names(inputs.environment.slice)
    const wrong: string[] = []
    for (const account of [serviceAccounts.agentHost, serviceAccounts.commandHost])
      for (const wish of WISHES)
        if (await can(inputs, wish, `system:serviceaccount:${namespaces.sandboxes}:${account}`))
          wrong.push(`${account} may ${wish.join(' ')}`)
    return verdict(wrong, `2 accounts, ${WISHES.length} questions each`)
  },
}

const Assignment = z.object({
  roleDefinitionName: z.string(),
  roleDefinitionId: z.string(),
  scope: z.string(),
})
type Assignment = z.infer<typeof Assignment>
const Assigned = z.array(Assignment)

/** Compares the GUID, because any role can be given this name. */
function isCustomRole(
  roleOf: typeof secretGetter,
  { roleDefinitionId, scope }: Assignment,
  platform: string,
): boolean {
  const [, subscription = ''] = /^\/subscriptions\/([0-9a-f-]{36})\//i.exec(scope) ?? []
  const { definitionId } = roleOf(subscription.toLowerCase(), platform)
  return roleDefinitionId.toLowerCase() === definitionId.toLowerCase()
}

/** Compares the GUID of the role. The host of a resource does not contain its name, so any one account passes. */
const callsModel = ({ roleDefinitionId, scope }: Assignment) =>
  roleDefinitionId.toLowerCase().endsWith(`/${BUILT_IN_ROLES[MODEL_ROLE]}`) &&
  /\/providers\/Microsoft\.CognitiveServices\/accounts\/[^/]+$/i.test(scope)

const MODEL_ROLE = 'Cognitive Services OpenAI User'
const AZ_MS = 60_000

/** Checks which Azure identities may read and write the vault of users' credentials, and which may call the model. */
export const identity: Check = {
  id: 'identity',
  shows:
    'in Azure, the identity of the egress proxy may only read secrets of the user-token vault by name and call the model, if there is one; the one of sandboxes, which they have only in mode fqdn, may only read these secrets; the one of the API may write them and not read them',
  async run(inputs) {
    const { azure, cluster } = inputs.environment.infra
    if (!azure) throw new NotRun('this environment is not on Azure')
    const { agentHost, egressProxy, api } = azure.identities
    const [ofSandboxes, ofProxy, ofApi] = [
      agentHost ? await assignments(inputs, agentHost.clientId) : [],
      await assignments(inputs, egressProxy.clientId),
      await assignments(inputs, api.clientId),
    ]
    const vault = azure.vaults.userTokens.name
    const isOnVault = ({ scope }: Assignment) =>
      scope.toLowerCase().endsWith(`/vaults/${vault.toLowerCase()}`)
    const reads = (one: Assignment) => isOnVault(one) && isCustomRole(secretGetter, one, cluster.name)
    const writes = (one: Assignment) => isOnVault(one) && isCustomRole(secretWriter, one, cluster.name)
    const hasModel = azure.modelHost !== undefined
    const asks = (one: Assignment) => hasModel && callsModel(one)
    const vaults = [...ofSandboxes, ...ofProxy, ...ofApi]
      .filter(isOnVault)
      .map(({ scope }) => scope.toLowerCase())
    /** The assignment is on the vault, on its resource group or subscription, or on a secret in it. */
    const concernsVault = ({ scope }: Assignment) => vaults.some((one) => overlap(one, scope.toLowerCase()))
    const wrong = [
      ...lacking(
        'sandboxes',
        !agentHost || ofSandboxes.some(reads),
        `${SECRET_GETTER.name} on vault ${vault}`,
      ),
      ...lacking('egress proxy', ofProxy.some(reads), `${SECRET_GETTER.name} on vault ${vault}`),
      ...lacking('egress proxy', !hasModel || ofProxy.some(callsModel), `${MODEL_ROLE} on the model`),
      ...lacking('API', ofApi.some(writes), `${SECRET_WRITER.name} on vault ${vault}`),
      ...beyond('sandboxes', ofSandboxes, reads),
      ...beyond('egress proxy', ofProxy, (one) => reads(one) || asks(one)),
      // The API may also have roles on other resources, such as its own keys.
      ...beyond('API', ofApi.filter(concernsVault), writes),
    ]
    const all = [...ofSandboxes, ...ofProxy, ...ofApi]
    return verdict(wrong, `${all.length} assignments`, all)
  },
}

const lacking = (whose: string, hasIt: boolean, what: string): string[] =>
  hasIt ? [] : [`${whose}: it lacks ${what}`]

/** Whether one scope of Azure lies in the other. */
const overlap = (one: string, other: string) =>
  `${one}/`.startsWith(`${other}/`) || `${other}/`.startsWith(`${one}/`)

const beyond = (
  whose: string,
  assigned: readonly Assignment[],
  isRight: (assignment: Assignment) => boolean,
): string[] =>
  assigned
    .filter((one) => !isRight(one))
    .map(({ roleDefinitionName, scope }) => `${whose}: it also has ${roleDefinitionName} on ${scope}`)

async function assignments({ call }: CheckInputs, clientId: string) {
  const args = [
    'role',
    'assignment',
    'list',
    '--assignee',
    clientId,
    '--all',
    '--include-inherited',
    '--include-groups',
  ]
  try {
    const { status, stdout, stderr } = await call({
      program: 'az',
      args: [...args, '--output', 'json'],
      timeoutMs: AZ_MS,
    })
    if (status === 0) return Assigned.parse(JSON.parse(stdout))
    throw new NotRun(`az failed: ${stderr.trim().split('\n').at(-1) ?? ''}`)
  } catch (error) {
    throw error instanceof NotRun ? error : new NotRun(messageOf(error))
  }
}
