/** Leases of processes that drive runs are named by this and their id. */
export const HOLDER_LEASE = 'holder:'
