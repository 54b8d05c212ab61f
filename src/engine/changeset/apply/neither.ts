import { OrangeryError } from '../../../shared/errors.ts'
import { namedPath } from '../bytePath.ts'
import type { Operation } from './steps.ts'

type Place = { readonly root: string; readonly path: string; readonly path_b64?: string }

/** Neither what was there nor what should be: somebody else wrote it meanwhile, and a person has to say. */
export class NeitherOldNorNew extends OrangeryError {
  readonly place: Place

  constructor(place: Place) {
    super(
      'changeset.neither_old_nor_new',
      `stopped at ${place.path}: it is neither what it was nor what it should become`,
      {
        kind: 'busy',
        hint: `Somebody wrote ${place.path} meanwhile. Look at it, then say whose it shall be with \`orangery changeset settle\`.`,
        details: place,
      },
    )
    this.place = place
  }
}
export function neither({ root, path }: Operation): NeitherOldNorNew {
  return new NeitherOldNorNew({ root, ...namedPath(path) })
}
