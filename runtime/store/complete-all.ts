/**
 * Does every step, one after the other, also after a step that failed, and then throws the first failure. Returns the sum of
 * the results.
 */
export async function completeAll(steps: Iterable<() => Promise<number>>): Promise<number> {
  let sum = 0
  const failures: unknown[] = []
  for (const step of steps) {
    try {
      sum += await step()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
  return sum
}
