"""The command line of a verl user who trains GRPO on GSM8K and has never heard of this package."""

from __future__ import annotations

# The settings of verl 0.9.1's GRPO example on GSM8K (examples/grpo_trainer), which samples 5 rollouts a prompt.
GSM8K = {
    "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
    "data": {
        "train_files": "gsm8k/train.parquet",
        "val_files": "gsm8k/test.parquet",
        "train_batch_size": 512,
        "max_prompt_length": 1024,
        "max_response_length": 1024,
        "filter_overlong_prompts": True,
        "truncation": "error",
    },
    "actor_rollout_ref": {
        "model": {"path": "Qwen/Qwen3-4B", "use_remove_padding": True, "enable_gradient_checkpointing": True},
        "actor": {
            "optim": {"lr": 1e-6},
            "ppo_mini_batch_size": 256,
            "ppo_micro_batch_size_per_gpu": 2,
            "use_kl_loss": True,
            "kl_loss_coef": 0.001,
            "kl_loss_type": "low_var_kl",
            "entropy_coeff": 0,
            "use_dynamic_bsz": True,
            "ppo_max_token_len_per_gpu": 3000,
        },
        "rollout": {"name": "vllm", "tensor_model_parallel_size": 2, "gpu_memory_utilization": 0.6, "n": 5},
        "ref": {"log_prob_use_dynamic_bsz": True, "fsdp_config": {"param_offload": True}},
    },
    "trainer": {"critic_warmup": 0, "save_freq": 20, "test_freq": 5, "total_epochs": 15},
}


def as_overrides(settings: dict, prefix: str = "") -> list[str]:
    """Nested settings as they stand on a command line."""
    overrides = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        overrides += as_overrides(value, f"{name}.") if isinstance(value, dict) else [f"{name}={value}"]
    return overrides
