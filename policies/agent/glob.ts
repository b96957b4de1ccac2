const STAR = 42

/**
 * Whether `text` has the form of `glob`, where `*` stands for any characters, `/` too. One mark for going back
 * is kept, so the time is at most the product of both lengths, and never exponential.
 */
export function matchesGlob(glob: string, text: string): boolean {
  let g = 0
  let t = 0
  let star = -1
  let retry = 0
  while (t < text.length) {
    if (glob.charCodeAt(g) === STAR) {
      star = g++
      retry = t
    } else if (glob.charCodeAt(g) === text.charCodeAt(t)) {
      g++
      t++
    } else if (star < 0) {
      return false
    } else {
      g = star + 1
      t = ++retry
    }
  }
  return onlyStars(glob, g)
}

function onlyStars(glob: string, from: number): boolean {
  for (let g = from; g < glob.length; g++) if (glob.charCodeAt(g) !== STAR) return false
  return true
}
