import { describe, expect, it } from 'vitest'
import {
  type CheckInsertion,
  type CredentialCheckRow,
  WAITING_CHECKS,
} from '../../runtime/store/credential-checks.ts'
import { type StoreUnderTest, useStore } from './store-under-test.ts'

const LONG = 600_000
/** Together, they may have more checks than all owners may. */
const MANY_OWNERS = 20

export const aCheck = (owner = 'ada "ü'): CredentialCheckRow => ({
  id: crypto.randomUUID(),
  credential: {
    ...{ owner, kind: 'git', target: 'git.example.com', user: 'oauth2', fingerprint: '0'.repeat(16) },
    ...{ sealed: 'vault:1', keyId: 'k', setAt: '2027-01-01T00:00:00.000Z' },
  },
  plan: {
    ...{ kind: 'host', path: '/a', isPublicPossible: true, user: 'oauth2' },
    destination: {
      ...{ host: 'git.example.com', ports: [443], methods: ['GET'], phases: ['work'], caller: 'any' },
    },
  },
})

export function testCredentialChecks(engine: StoreUnderTest): void {
  describe('checks of credentials', () => {
    const store = useStore(engine)

    it('are listed until one caller has begun them, and have one verdict', async () => {
      const [check, other] = [aCheck(), aCheck('bob')]
      for (const one of [check, other])
        expect(await store().insertCredentialCheck(one, LONG)).toBe('inserted')
      const { id } = check
      expect(new Set(await store().listCredentialChecks())).toEqual(new Set([id, other.id]))

      const claims = await Promise.all([1, 2, 3].map(() => store().claimCredentialCheck(id)))

      expect(claims.filter((claim) => claim !== undefined)).toEqual([check])
      expect(await store().listCredentialChecks()).toEqual([other.id])
      expect(await store().readCredentialVerdict(id)).toBe('waiting')
      await store().endCredentialCheck(id, { verdict: 'refused', status: 401 })
      await store().endCredentialCheck(id, { verdict: 'accepted' })
      await store().endCredentialCheck(other.id, { verdict: 'accepted' })
      expect(await store().readCredentialVerdict(id)).toEqual({ verdict: 'refused', status: 401 })
      expect(await store().readCredentialVerdict(other.id)).toBe('waiting')
      for (const one of [check, other]) await store().deleteCredentialCheck(one.id)
      expect(await store().claimCredentialCheck(other.id)).toBeUndefined()
      expect(await store().readCredentialVerdict(other.id)).toBeUndefined()
    })

    it('end with their time, and are deleted with the data of their owner', async () => {
      const [late, erased] = [aCheck(), aCheck('erased')]
      await store().insertCredentialCheck(late, 0)
      await store().insertCredentialCheck(erased, LONG)

      expect(await store().listCredentialChecks()).toEqual([erased.id])
      expect(await store().claimCredentialCheck(late.id)).toBeUndefined()
      await store().eraseOwner('erased')
      expect(await store().listCredentialChecks()).toEqual([])
    })

    it('are limited in number', async () => {
      const { perOwner, inAll } = WAITING_CHECKS
      const insertions: CheckInsertion[] = []
      for (let count = 0; count <= inAll; count += 1)
        insertions.push(await store().insertCredentialCheck(aCheck(`many-${count % MANY_OWNERS}`), LONG))
      for (let owner = 0; owner < MANY_OWNERS; owner += 1) await store().eraseOwner(`many-${owner}`)

      expect(MANY_OWNERS * perOwner).toBeGreaterThan(inAll)
      expect(insertions).toEqual([...Array<CheckInsertion>(inAll).fill('inserted'), 'limit'])
    })

    it('are limited for each owner, also if they begin at the same moment', async () => {
      const insertions = await Promise.all(
        Array.from({ length: 7 }, () => store().insertCredentialCheck(aCheck('one'), LONG)),
      )
      const other = await store().insertCredentialCheck(aCheck('another'), LONG)
      for (const owner of ['one', 'another']) await store().eraseOwner(owner)

      expect(insertions.filter((one) => one === 'inserted')).toHaveLength(WAITING_CHECKS.perOwner)
      expect(insertions.filter((one) => one === 'owner_limit')).toHaveLength(7 - WAITING_CHECKS.perOwner)
      expect(other).toBe('inserted')
    })
  })
}
