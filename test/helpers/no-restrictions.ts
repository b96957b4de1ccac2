import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../../runtime/kit/log.ts'

/** Restrictions of a deployment where nobody has set one. */
export const noRestrictions = (): Restrictions =>
  new Restrictions({ store: { engine: 'sqlite', listRestrictions: async () => [] }, log: silentLog })
