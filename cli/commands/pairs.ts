import { InvalidArgumentError } from 'commander'

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
  const [, kind, digits] = /^([^=]+)=(\d+)$/.exec(given) ?? []
  if (kind === undefined) throw new InvalidArgumentError('must have the form kind=number')
  return { ...before, [kind]: Number(digits) }
}

export const collectWords = (given: string, before: readonly string[] = []): string[] => [...before, given]
