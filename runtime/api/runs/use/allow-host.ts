import { randomUUID } from 'node:crypto'
import type { SandboxSettings } from '../../../../contracts/policy.ts'
import type { AllowEgress, AllowedEgress } from '../../../../contracts/run-egress.ts'
import { hasHost } from '../../../../policies/agent/egress/narrow.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { NewEvent, RunRow, Transaction } from '../../../store/store.ts'
import type { SandboxPolicy } from '../admit/sandbox-policy.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { requireRun, requireRunning } from '../run-view.ts'
import type { Caller, RunService } from '../service.ts'
import type { RunNetworks } from './run-networks.ts'

type Deps = Pick<RunDeps, 'store' | 'clock' | 'redactText' | 'networks' | 'log'>

const MAX_HOSTS = 64

/** Hosts that people allow to a run while it works. Never more than the operator permits. */
export function createAllowedHosts(
  { store, clock, redactText, networks, log }: Deps,
  policy: Pick<SandboxPolicy, 'of'>,
  audit: AuditTrail,
): Pick<RunService, 'allowEgress'> {
  async function write(tx: Transaction, caller: Caller, { run, allowed }: Written): Promise<void> {
    await tx.changeRun(run.id, { allowedHosts: [...run.allowedHosts, allowed] })
    await tx.appendEvents(run.id, eventsOf({ run, allowed }, networks))
    await audit.append(tx, run.id, [recordOf({ run, allowed })])
    await caller.keep?.(tx, allowed)
  }

  return {
    async allowEgress(caller, id, { host, reason }: AllowEgress): Promise<AllowedEgress> {
      const asked = await requireRun(store, caller, id)
      if (!networks) throw new SandboxError('conflict', 'This deployment has no egress proxy.')
      if (networks.standingOf(asked, host) === 'unlisted') throw notListed(asked, host)
      refuseBeyondSettings(await policy.of(asked), host)
      const allowed = { host, reason: redactText(reason), by: caller.owner, at: clock().toISOString() }
      await store.transaction(async (tx) => {
        const run = requireRunning(id, await tx.readRun(id))
        refuseWithoutEffect(run, { host, networks })
        await write(tx, caller, { run, allowed })
      })
      // It is stored, so it will be in force even if it cannot be applied now.
      await bestEffort(log, 'apply a host that a person allowed', () => networks.changed(id))
      return allowed
    },
  }
}

interface Written {
  readonly run: RunRow
  readonly allowed: AllowedEgress
}

const notListed = ({ id }: RunRow, host: string): SandboxError =>
  new SandboxError(
    'policy_denied',
    `${host} is not in the operator's egress list, and a run cannot be allowed a host outside it. The operator can add the host to the file of AGENTWEAVER_EGRESS_FILE and restart the service. If a command has tried to reach the host, this prints the entry: agentweaver egress suggest ${id}`,
  )

/** The operator may have limited the hosts of all runs. */
function refuseBeyondSettings(
  { egress_hosts: hosts, network_enabled: isEnabled }: SandboxSettings,
  host: string,
): void {
  if (isEnabled && (!hosts || hasHost(hosts, host))) return
  const [what, setting] = isEnabled ? [host, 'egress_hosts'] : ['the network', 'network_enabled']
  throw new SandboxError(
    'policy_denied',
    `The operator's settings do not allow ${what}. The operator can change ${setting} in AGENTWEAVER_CEILING_FILE or with /api/sandbox-policy.`,
  )
}

function refuseWithoutEffect(
  run: RunRow,
  { host, networks }: { readonly host: string; readonly networks: RunNetworks },
): void {
  const { id, settings, allowedHosts } = run
  if (!settings.network_enabled)
    throw new SandboxError('conflict', `${id} has no network. Start a run with --network.`)
  if (networks.standingOf(run, host) === 'allowed')
    throw new SandboxError(
      'conflict',
      `${id} may already connect to ${host}. See the refusals: agentweaver egress explain ${id}`,
    )
  if (allowedHosts.length >= MAX_HOSTS)
    throw new SandboxError('conflict', `${id} was allowed ${MAX_HOSTS} hosts already. Start another run.`)
}

function eventsOf({ run, allowed }: Written, networks: RunNetworks | undefined): NewEvent[] {
  const { host, by, reason } = allowed
  const events: NewEvent[] = [{ event: { type: 'egress.allowed', data: { host, by, reason } } }]
  if (!run.sandbox || !networks?.isLoosened(run, host)) return events
  const message = `the egress proxy passes TLS to ${host} on unread and does not enforce the methods and paths of its entry, because the entry has "splice: allow"`
  const { backend } = run.sandbox.isolation
  return [
    ...events,
    { event: { type: 'sandbox.warning', data: { category: 'egress-by-name', message, backend } } },
  ]
}

const recordOf = ({ run, allowed }: Written) => ({
  kind: 'egress.allowed' as const,
  runId: run.id,
  callId: `egress_${randomUUID().replaceAll('-', '')}`,
  actor: `person:${allowed.by}`,
  tool: 'egress',
  policyVersion: run.policyVersion,
  decision: 'allow',
  reasons: [allowed.host, allowed.reason],
  at: allowed.at,
})
