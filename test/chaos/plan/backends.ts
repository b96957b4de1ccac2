/** The places where a round keeps its data: how many processes of the service, on which database. */
export const BACKENDS = ['sqlite', 'postgres', 'two-replicas'] as const
export type Backend = (typeof BACKENDS)[number]
