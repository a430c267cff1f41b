"""Corrections of model classes that a run imports by ``actor_rollout_ref.model.external_lib``; nothing else does."""
