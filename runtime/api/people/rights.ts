import type { ApiRole } from '../../../contracts/api-keys.ts'
import { SandboxError } from '../../kit/errors.ts'

/**
 * What a request does with a run. `follow`: its state, events, approvals and network. `read`: also its stored results and
 * its audit. `decide`: approve or deny a request of the agent. `change`: everything else, including reads of a live sandbox,
 * because they keep the sandbox from being suspended.
 */
export type Access = 'follow' | 'read' | 'decide' | 'change'

const ALL: readonly Access[] = ['follow', 'read', 'decide', 'change']

const RIGHTS: Readonly<
  Record<ApiRole, { readonly own: readonly Access[]; readonly others: readonly Access[] }>
> = {
  user: { own: ALL, others: [] },
  approver: { own: ALL, others: ['follow', 'decide'] },
  auditor: { own: ['follow', 'read'], others: ['follow', 'read'] },
  operator: { own: ALL, others: ALL },
}

const REFUSALS: Readonly<Record<Exclude<ApiRole, 'operator'>, string>> = {
  user: 'A user works only with the own runs.',
  approver: 'An approver follows the runs of others and decides their requests, and nothing else.',
  auditor: 'An auditor reads runs and the audit, and changes nothing.',
}

type Who = { readonly owner: string; readonly role: ApiRole }

/** Whether the runs of all owners are visible to the caller. */
export const seesAllRuns = ({ role }: Pick<Who, 'role'>): boolean => RIGHTS[role].others.includes('follow')

/** Whether the caller reads the audit of the deployment. */
export const readsWholeAudit = ({ role }: Pick<Who, 'role'>): boolean => RIGHTS[role].others.includes('read')

/** Whether a run of this owner exists for the caller at all. */
export const seesRunOf = (caller: Who, owner: string): boolean =>
  caller.owner === owner || seesAllRuns(caller)

export function requireAccess(caller: Who, owner: string, access: Access): void {
  const { own, others } = RIGHTS[caller.role]
  if ((caller.owner === owner ? own : others).includes(access)) return
  throw forbidden(caller)
}

/** Refuses every request of an auditor that is not a read. */
export function refuseChanges(caller: Pick<Who, 'role'>, method: string): void {
  if (caller.role === 'auditor' && method !== 'GET') throw forbidden(caller)
}

function forbidden({ role }: Pick<Who, 'role'>): SandboxError {
  const why = role === 'operator' ? 'An operator may not do this.' : REFUSALS[role]
  return new SandboxError('forbidden', `The role ${role} does not permit this. ${why}`)
}

/** Roles that a caller may give to a key: none has more rights than the caller's own role. */
const GRANTS: Readonly<Record<ApiRole, readonly ApiRole[]>> = {
  user: ['user'],
  approver: ['user', 'approver'],
  auditor: [],
  operator: ['user', 'auditor', 'approver', 'operator'],
}

export const mayGrant = ({ role }: Pick<Who, 'role'>, granted: ApiRole): boolean =>
  GRANTS[role].includes(granted)
