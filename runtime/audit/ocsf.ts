import type { AuditEntry } from '../../contracts/audit.ts'

/** Numbers of the Open Cybersecurity Schema Framework: class API Activity in the category Application Activity. */
export const OCSF_VERSION = '1.6.0'
const OCSF = { version: OCSF_VERSION, categoryUid: 6, classUid: 6003 } as const
const ACTIVITY = { create: 1, read: 2, update: 3, other: 99 } as const
const ACTIVITY_NAME = { 1: 'Create', 2: 'Read', 3: 'Update', 99: 'Other' } as const
const STATUS = { unknown: 0, success: 1, failure: 2 } as const
const INFORMATIONAL = 1

const ACTIVITY_OF_TOOL: Readonly<Record<string, (typeof ACTIVITY)[keyof typeof ACTIVITY]>> = {
  read_file: ACTIVITY.read,
  grep_search: ACTIVITY.read,
  file_search: ACTIVITY.read,
  create: ACTIVITY.create,
  str_replace_editor: ACTIVITY.update,
  edit: ACTIVITY.update,
  apply_patch: ACTIVITY.update,
}

/** Action and disposition of the `security_control` profile. For "other", the schema requires a name too. */
const CONTROL: Readonly<Record<string, object>> = {
  allow: { action_id: 1, action: 'Allowed', disposition_id: 1, disposition: 'Allowed' },
  deny: { action_id: 2, action: 'Denied', disposition_id: 2, disposition: 'Blocked' },
}
const otherControl = (decision: string) => ({
  action_id: 99,
  action: decision,
  disposition_id: 99,
  disposition: decision,
})

/** Converts a record to an OCSF event. Fields without a place in the schema go under `unmapped`. */
export function toOcsf(record: AuditEntry): object {
  const activity = ACTIVITY_OF_TOOL[record.tool] ?? ACTIVITY.other
  return {
    category_uid: OCSF.categoryUid,
    class_uid: OCSF.classUid,
    activity_id: activity,
    activity_name: activity === ACTIVITY.other ? record.tool : ACTIVITY_NAME[activity],
    type_uid: OCSF.classUid * 100 + activity,
    time: Date.parse(record.at),
    severity_id: INFORMATIONAL,
    ...statusOf(record),
    ...(record.durationMs !== undefined && { duration: Math.round(record.durationMs) }),
    ...(record.decision !== undefined && (CONTROL[record.decision] ?? otherControl(record.decision))),
    actor: { user: { name: record.actor } },
    api: apiOf(record),
    // The source is the run's sandbox. Its address is only valid while it exists, so the name is used.
    src_endpoint: { name: 'sandbox', instance_uid: record.runId || 'deployment' },
    metadata: {
      version: OCSF.version,
      product: { name: 'Agentweaver Sandbox', vendor_name: 'Agentweaver' },
      uid: `${record.runId}:${record.sequence}`,
      correlation_uid: record.callId,
      event_code: record.kind,
      original_time: record.at,
      ...(record.decision !== undefined && { profiles: ['security_control'] }),
    },
    unmapped: unmappedOf(record),
  }
}

function statusOf({ kind, outcome }: AuditEntry): object {
  if (kind !== 'outcome') return { status_id: STATUS.unknown, status: 'Unknown' }
  return outcome === 'ok' || outcome === 'exit'
    ? { status_id: STATUS.success, status: 'Success' }
    : {
        status_id: STATUS.failure,
        status: 'Failure',
        ...(outcome !== undefined && { status_detail: outcome }),
      }
}

const apiOf = ({ tool, callId, exitCode, outcome }: AuditEntry): object => ({
  operation: tool,
  service: { name: 'agentweaver' },
  request: { uid: callId },
  ...(outcome !== undefined && {
    response: { message: outcome, ...(exitCode !== undefined && { code: exitCode }) },
  }),
})

const unmappedOf = (record: AuditEntry): object => ({
  key_id: record.keyId,
  mac: record.mac,
  policy_version: record.policyVersion,
  ...(record.reasons && { reasons: record.reasons }),
  ...(record.approval !== undefined && { approval: record.approval }),
  ...(record.paramsHash !== undefined && { params_hash: record.paramsHash }),
  ...(record.bytes !== undefined && { bytes: record.bytes }),
  ...(record.sealed && { sealed: record.sealed }),
})
