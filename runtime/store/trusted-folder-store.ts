import type { TrustedFolder } from './service-rows.ts'

export interface TrustedFolderStore {
  readTrustedFolder(owner: string, path: string): Promise<TrustedFolder | undefined>
  /** Puts these settings in force, in the place of those that were. */
  writeTrustedFolder(folder: TrustedFolder): Promise<void>
  /** Returns false if the owner does not trust such a folder. */
  deleteTrustedFolder(owner: string, path: string): Promise<boolean>
  /** Most recently trusted first. `after` is the `next` of the previous page. */
  listTrustedFolders(filter: {
    readonly owner: string
    readonly after?: string
    readonly limit: number
  }): Promise<{ items: (Omit<TrustedFolder, 'settings'> & { readonly hasFile: boolean })[]; next?: string }>
}
