import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../../runtime/kit/log.ts'

/** The default restrictions of a deployment. */
export const noRestrictions = (): Restrictions =>
  new Restrictions({ store: { engine: 'sqlite', listRestrictions: async () => [] }, log: silentLog })
