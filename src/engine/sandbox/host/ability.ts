/** Something the host can or cannot do; where it cannot, why, and the one command that helps. */
export type Ability =
  { readonly ok: true } | { readonly ok: false; readonly why: string; readonly fix: string }
