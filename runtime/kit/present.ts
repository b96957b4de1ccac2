/** Removes members whose value is `undefined`, as `exactOptionalPropertyTypes` requires. */
export function present<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return Object.fromEntries(members) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
