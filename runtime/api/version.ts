import manifest from '../../package.json' with { type: 'json' }

/** Version of this program. A bundle contains it. */
export const VERSION: string = manifest.version
