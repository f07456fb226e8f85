"""[F26]'s policies: geometric slicing and geometric batching."""
