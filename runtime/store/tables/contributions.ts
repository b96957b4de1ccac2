import { toText } from '../codec.ts'
import { Contributions } from '../columns.ts'
import type { ContributionRow, ContributionTransaction } from '../contributions.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'

/** In place of a key id: a column of a primary key is never null. */
const NO_KEY = ''

function toContribution(row: object): ContributionRow {
  const at = new RowReader('run_contributions', row)
  const keyId = at.plain('key_id')
  return {
    runId: at.plain('run_id'),
    person: at.text('person'),
    how: at.oneOf('how', Contributions),
    at: at.plain('at'),
    ...(keyId !== NO_KEY && { keyId }),
  }
}

export const contributionTransaction = ({ db }: Scope): ContributionTransaction => ({
  async insertContribution({ runId, person, keyId = NO_KEY, how, at }) {
    await db
      .insertInto('run_contributions')
      .values({ run_id: runId, person: toText(person), key_id: keyId, how, at })
      .onConflict((conflict) => conflict.columns(['run_id', 'person', 'key_id']).doNothing())
      .execute()
  },
  async listContributions(runId) {
    const rows = await db
      .selectFrom('run_contributions')
      .selectAll()
      .where('run_id', '=', toText(runId))
      .orderBy('at')
      .execute()
    return rows.map(toContribution)
  },
})
