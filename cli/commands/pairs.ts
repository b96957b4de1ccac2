import { InvalidArgumentError } from 'commander'
import { BUDGET_KINDS } from '../../contracts/budgets.ts'

export function collectPairs(
  given: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(given) ?? []
  if (key === undefined || value === undefined) throw new InvalidArgumentError('must have the form key=value')
  return { ...before, [key]: value }
}

export function collectLimits(
  given: string,
  before: Readonly<Record<string, number>> = {},
): Record<string, number> {
  const [, kind = '', digits] = /^([^=]+)=(\d{1,15})$/.exec(given) ?? []
  if (digits === undefined)
    throw new InvalidArgumentError(
      'must have the form kind=number, with a whole number such as tokens=200000',
    )
  if (!BUDGET_KINDS.some((known) => known === kind))
    throw new InvalidArgumentError(`there is no budget "${kind}". The kinds are ${BUDGET_KINDS.join(', ')}.`)
  if (kind in before) throw new InvalidArgumentError(`the budget "${kind}" is given twice`)
  return { ...before, [kind]: Number(digits) }
}

export const collectWords = (given: string, before: readonly string[] = []): string[] => [...before, given]
