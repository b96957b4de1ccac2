const STEPS = ['bytes', 'KiB', 'MiB', 'GiB'] as const

/** A number of bytes for people. */
export function sizeWords(bytes: number): string {
  const step = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), STEPS.length - 1)
  const value = bytes / 1024 ** step
  return `${step === 0 ? value : value.toFixed(1)} ${STEPS[step]}`
}
