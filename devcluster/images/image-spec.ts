/** A file, folder or symbolic link in a layer. The default owner is root, and all times are the epoch. */
export type LayerEntry =
  | {
      readonly kind: 'file'
      readonly path: string
      readonly source: string
      readonly executable?: boolean
      /** Overrides the mode that follows from `executable`. */
      readonly mode?: number
    }
  | { readonly kind: 'text'; readonly path: string; readonly text: string; readonly executable?: boolean }
  | { readonly kind: 'folder'; readonly path: string; readonly mode?: number; readonly owner?: number }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }

/** The contents of an image. Equal values give the same digest. */
export interface ImageSpec {
  /** The reference that pods use, for example `localhost/toolbox:1`. */
  readonly reference: string
  readonly layers: readonly (readonly LayerEntry[])[]
  readonly entrypoint: readonly string[]
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** Numeric, so that a kubelet can check `runAsNonRoot`. */
  readonly user: string
  readonly workingFolder?: string
  readonly labels?: Readonly<Record<string, string>>
}
