import pg from 'pg'

export type DatabasePlace = { readonly url: string; readonly password?: () => Promise<string> }

/** The library's client. If the database has a password function, the client calls it for every new connection. */
export function clientFor({ password }: DatabasePlace): typeof pg.Client {
  if (!password) return pg.Client
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config)
      // A URL without a password counts as one with an empty one, so the library's own option would be overruled.
      Object.assign(this, { password })
    }
  }
}
